"""The TFRecord format: recognizes, opens and writes its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.framed.compressed_writer import options_of_reader
from dataformats.backends.tfrecord.compression import PREFIX_BYTES, Compression, compression_of
from dataformats.backends.tfrecord.payload import payload_of
from dataformats.backends.tfrecord.reader import TFRecordReader
from dataformats.backends.tfrecord.salvage import salvage
from dataformats.backends.tfrecord.sniff import sniff_frames
from dataformats.backends.tfrecord.writer import TFRecordWriter
from dataformats.interfaces import (
    BlobBackend,
    FilePlace,
    Reader,
    ReaderOptions,
    ResumesFinishedFiles,
    ShardSalvage,
    SniffResult,
    SupportsRepair,
)
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.files import LocalFile

_ENDINGS = (".tfrecord", ".tfrecords", ".tfrec")
_COMPRESSED = (".gz", ".zlib")
_BY_SUFFIX: dict[str, Compression] = {".gz": "gzip", ".zlib": "zlib"}
_SUFFIX_OF: dict[str, str] = {compression: suffix for suffix, compression in _BY_SUFFIX.items()}
_SHARD = re.compile(r"-\d+-of-\d+(\.gz|\.zlib)?$")  # the names that TensorFlow's own tools give


class TFRecordBackend(BlobBackend, ResumesFinishedFiles, SupportsRepair):
    """TFRecord, the format of TensorFlow, JAX and many datasets published for them."""

    name = "tfrecord"
    suffixes: tuple[str, ...] = (*_ENDINGS, *(ending + more for ending in _ENDINGS for more in _COMPRESSED))
    has_checked_header = True
    compressions: tuple[str, ...] = ("auto", "gzip", "zlib")

    def matches_name(self, name: str) -> bool:
        """True for the suffixes, and for `x-00000-of-00003` without one."""
        return super().matches_name(name) or _SHARD.search(name) is not None

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by the checksum of its first length, decompressed if necessary."""
        return sniff_frames(file, has_name=self.matches_name(file.basename))

    def open(
        self, files: Sequence[StoredFile], options: ReaderOptions, *, compression: Compression = "auto", **_: Any
    ) -> TFRecordReader:
        """Return a reader.

        Args:
            compression: `"gzip"`, `"zlib"`, `"none"`, or `"auto"`, which reads it from the first bytes of each file.

        Raises:
            FormatError: A file is not compressed as `compression` says.
        """
        return TFRecordReader(files, options, compression)

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"example"`, `"sequence_example"` or `"bytes"`."""
        return payload_of(samples)

    def accepts_payload(self, payload: str) -> bool:
        """True for every payload but OFRecord's, which no reader of TFRecords expects."""
        return payload != "ofrecord"

    def create(
        self,
        path: Path,
        *,
        resume: bool = False,
        compression: Compression = "auto",
        place: FilePlace | None = None,
        **_: Any,
    ) -> TFRecordWriter:
        """Return a writer of one file.

        Args:
            resume: Keep the whole and sound records at the front of the file, and append to them.
            compression: `"gzip"` or `"zlib"`; `"none"` writes plain files, whose random reads are faster; `"auto"` goes
                by the name: `.gz` and `.zlib` are compressed.
        """
        return TFRecordWriter(path, resume=resume, compression=_compression_for(path, compression), place=place)

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the compression for shards; the name of a single file shows it."""
        return options_of_reader(reader, named=named)

    def extension_problem(self, path: Path, *, compression: Compression = "auto", **_: Any) -> str | None:
        """Only plain files can be extended: compressed data cannot be cut behind a record."""
        file = LocalFile(path)
        try:
            is_compressed = compression_of(file.pread(0, PREFIX_BYTES)) != "none" if file.size else False
        finally:
            file.release()
        is_plain = not is_compressed and _compression_for(path, compression) == "none"
        return None if is_plain else "is compressed"

    def shard_names(self, stem: str, count: int, *, compression: str = "none", **_: Any) -> list[str]:
        """Return `stem-00000-of-00003.tfrecord` and so on; compressed shards end in `.gz` or `.zlib`."""
        ending = _ENDINGS[0] + _SUFFIX_OF.get(compression, "")
        return [f"{stem}-{number:05d}-of-{count:05d}{ending}" for number in range(count)]

    def shard_name(self, stem: str, number: int, *, compression: str = "none", **_: Any) -> str:
        """Return `stem-00000.tfrecord` and so on, with the same endings."""
        return f"{stem}-{number:05d}{_ENDINGS[0]}{_SUFFIX_OF.get(compression, '')}"

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of a file."""
        return salvage(files[0])


def _compression_for(path: Path, chosen: Compression) -> Compression:
    """Return the compression of a new file."""
    return chosen if chosen != "auto" else _BY_SUFFIX.get(Path(path.name.removesuffix(".partial")).suffix, "none")
