"""What `dataformats` knows of TFRecord as a format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, cast

from dataformats.backends.tfrecord.reader import TFRecordReader
from dataformats.backends.tfrecord.sniff import Compression, chosen_compression, judge
from dataformats.backends.tfrecord.writer import TFRecordWriter
from dataformats.interfaces import BlobBackend, OpenOptions, SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.registry import codecs

__all__ = ["TFRecordBackend"]

_ENDINGS = (".tfrecord", ".tfrecords", ".tfrec")
_COMPRESSED = (".gz", ".zlib")
_BY_SUFFIX: dict[str, Compression] = {".gz": "gzip", ".zlib": "zlib"}
_SHARD = re.compile(r"-\d+-of-\d+(\.gz|\.zlib)?$")  # as TensorFlow's own tools name files


class TFRecordBackend(BlobBackend):
    """TFRecord, the format of TensorFlow, JAX and much of what is published for them."""

    name = "tfrecord"
    suffixes: tuple[str, ...] = (*_ENDINGS, *(ending + more for ending in _ENDINGS for more in _COMPRESSED))

    def matches_name(self, name: str) -> bool:
        """Return True for the suffixes, and for `x-00000-of-00003` without one."""
        return super().matches_name(name) or _SHARD.search(name) is not None

    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge a file by the checksum of its first length, decompressed if need be."""
        return judge(file, self.matches_name(file.basename))

    def open(  # type: ignore[override]  # the options of this format, by name
        self, files: Sequence[StoredFile], options: OpenOptions, *, compression: str | None = "auto"
    ) -> TFRecordReader:
        """Return a reader.

        Args:
            files: The files, in reading order.
            options: What `open` was told.
            compression: `"gzip"`, `"zlib"`, `"none"`, or `"auto"`: each file as its first bytes say.

        Raises:
            FormatError: A file is not compressed as `compression` says.
        """
        return TFRecordReader(files, options, chosen_compression(compression))

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"example"`, `"sequence_example"` or `"bytes"`.

        Every SequenceExample parses as an Example too, with an unknown field: an Example must hold nothing
        else. Empty records say nothing.
        """
        blobs = [sample for sample in samples if sample]
        if not blobs:
            return "bytes"
        example, sequence = _judge("example"), _judge("sequence_example")
        others = [blob for blob in blobs if not example.matches(blob)]
        if not others:
            return "example"
        return "sequence_example" if all(sequence.matches(blob) for blob in others) else "bytes"

    def accepts_payload(self, payload: str) -> bool:
        """Return True for every payload but OFRecord's, which no reader of TFRecords expects."""
        return payload != "ofrecord"

    def create(  # type: ignore[override]  # the options of this format, by name
        self, path: Path, *, resume: bool = False, compression: str | None = "auto"
    ) -> TFRecordWriter:
        """Return a writer of one file.

        Args:
            path: A local path.
            resume: Go on behind the records that are whole and sound in what stands there.
            compression: `"gzip"` or `"zlib"`; `None` writes plain files, which read faster at random; `"auto"` goes by
                the name: `.gz` and `.zlib` are compressed.
        """
        chosen = chosen_compression(compression)
        if chosen == "auto":
            chosen = _BY_SUFFIX.get(Path(path.name.removesuffix(".partial")).suffix, "none")
        return TFRecordWriter(path, resume=resume, compression=chosen)

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return `stem-00000-of-00003.tfrecord` and so on."""
        return [f"{stem}-{number:05d}-of-{count:05d}.tfrecord" for number in range(count)]


class _Judge(Protocol):
    def matches(self, blob: bytes) -> bool: ...


def _judge(payload: str) -> _Judge:
    return cast(_Judge, codecs.get(payload))
