"""The ArrayRecord format: recognizes, opens and writes its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.array_record.library import has_postscript
from dataformats.backends.array_record.reader import ArrayRecordReader
from dataformats.backends.array_record.salvage import salvage
from dataformats.backends.array_record.writer import ArrayRecordWriter
from dataformats.backends.tfrecord.payload import payload_of
from dataformats.errors import SpecError
from dataformats.interfaces import (
    BlobBackend,
    Reader,
    ReaderOptions,
    ShardSalvage,
    SniffResult,
    StoredFile,
    SupportsRepair,
)

_SHARD = re.compile(r"\.array_?record-\d+-of-\d+$")  # the names that tensorflow_datasets gives
_SIGNATURE = bytes.fromhex("83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9")


class ArrayRecordBackend(BlobBackend, SupportsRepair):
    """ArrayRecord."""

    name = "array_record"
    suffixes: tuple[str, ...] = (".array_record", ".arrayrecord")
    compressions: tuple[str, ...] = ("zstd", "zstd:LEVEL", "brotli", "brotli:LEVEL", "snappy")
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        """True for the suffixes, and for `x.array_record-00000-of-00003`."""
        return super().matches_name(name) or _SHARD.search(name) is not None

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by the magic number in its last block."""
        begins = file.pread(0, len(_SIGNATURE)) == _SIGNATURE
        ends = has_postscript(file)
        if begins and ends:
            return SniffResult("yes")
        if begins:
            return SniffResult("damaged", "its last 64 KiB do not begin with a postscript: it may be cut")
        return SniffResult("damaged" if ends else "no", "it does not begin with the signature of Riegeli")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> ArrayRecordReader:
        return ArrayRecordReader(files)

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"example"`, `"sequence_example"` or `"bytes"`, as for TFRecord."""
        return payload_of(samples)

    def accepts_payload(self, payload: str) -> bool:
        """True for every payload but OFRecord's, as for TFRecord."""
        return payload != "ofrecord"

    def create(
        self, path: Path, *, resume: bool = False, group_size: int = 1, compression: str = "zstd", **_: Any
    ) -> ArrayRecordWriter:
        """Return a writer.

        Args:
            resume: The file begins anew: without its table it cannot be read.
            group_size: Records of a chunk, which is decompressed at once: 1 is the fastest for random reads.
            compression: `"zstd"`, `"brotli"`, `"snappy"` or `"none"`; the first two with a level, such as `"zstd:9"`.
        """
        return ArrayRecordWriter(path, group_size, compression)

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the records of a chunk, and the compression."""
        found = reader.writer_options() if isinstance(reader, ArrayRecordReader) else set()
        if len(found) > 1:
            raise SpecError(f"the files were written with different options: {' and '.join(sorted(found))}")
        parts = [part.partition(":") for text in found for part in text.split(",")]
        said = {name: value for name, _, value in parts}
        codec = next((name for name in ("zstd", "brotli", "snappy", "uncompressed") if name in said), "zstd")
        level = said.get(codec, "")
        compression = "none" if codec == "uncompressed" else f"{codec}:{level}" if level else codec
        return {"group_size": int(said.get("group_size", 1)), "compression": compression}

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound records of a file."""
        return salvage(files[0], payload)
