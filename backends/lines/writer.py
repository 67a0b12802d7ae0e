"""Writes one file of lines, plain or compressed with gzip or zstd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.compressed_writer import CompressedWriter
from dataformats.backends.framed.framing import FramedBlobs
from dataformats.backends.lines.compression import decompressed
from dataformats.backends.lines.line_scan import BOM
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import FormatError, Remedy, SpecError
from dataformats.interfaces import BlobWriter, FilePlace, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.writing.appending_writer import Journaled

_WINDOW = 2**20
_JSON = re.compile(rb'[ \t\r]*+(?:[{\["\d-]|true|false|null|NaN|Infinity)[^\n]*+(?:\n[ \t\r]*+)*+\Z')


class LineFraming:
    """Lines as the writer of frames sees them: no header, and a line feed."""

    name: str
    head: int = 0
    tail: int = 0
    extra: int = 1
    min_length: int = 0
    index_metadata: Mapping[str, int] = {"head": 0, "extra": 1, "open": 0}

    def __init__(self, name: str) -> None:
        self.name = name

    def framed(self, blobs: Sequence[bytes]) -> FramedBlobs:
        """Return the lines of these records, and the lengths of the records."""
        lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
        return FramedBlobs([b"\n".join([*blobs, b""])], lengths, None)

    def frames(self, blobs: Sequence[bytes]) -> bytes:
        """Return the lines of these records."""
        return b"".join(self.framed(blobs).parts)


class LinesWriter(CompressedWriter):
    """Appends lines of text to one file.

    There are no checksums, so a journal shows which bytes of a plain file are as written.
    """

    extra: int = 1

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        resume: bool = False,
        compression: Literal["gzip", "zstd", "none"] = "none",
        place: FilePlace | None = None,
    ) -> None:
        self.framing = LineFraming(name)  # type: ignore[assignment]  # the part of a framing that writers use
        self.journaled: Journaled = "flush" if compression == "none" else "none"
        super().__init__(path, resume=resume, compression=compression, place=place)

    def check(self, record: bytes) -> None:
        """Raise `SpecError` for a record that would be read as others, or as another one."""
        if b"\n" in record or record.endswith(b"\r") or record.startswith(BOM):
            what = r"a line of text has no \n, does not end in \r, and does not begin with a byte order mark"
            raise SpecError(what, remedy="Take these characters out, or write another format, such as JSONL")

    def accepts_all(self, records: Sequence[bytes]) -> bool:
        lines = b"\n".join([b"", *records, b""])
        return lines.count(b"\n") == len(records) + 1 and b"\r\n" not in lines and b"\n" + BOM not in lines

    def frame_end(self, offset: int, length: int) -> int:
        return offset + length + 1

    def append_stored(self, records: StoredRecords) -> None:
        BlobWriter.append_stored(self, records)

    def _decompressed(self, stored: StoredFile) -> StoredFile:
        return decompressed(stored)

    def _sound(self, stored: StoredFile) -> Iterator[RecordChunk]:
        """Yield the whole lines of a file, as this writer wrote them."""
        if stored.size == 0:
            return
        try:
            file = self._decompressed(stored)
            size = file.size
        except FormatError:
            return  # a crash of the machine left zeros
        base, carry = 0, b""
        while base + len(carry) < size:
            try:
                data = carry + file.pread(base + len(carry), max(_WINDOW, len(carry)))
            except FormatError:
                if not file.damaged_ranges():
                    raise
                return  # a frame of zstd is damaged
            blobs = self._whole(data)
            if len(blobs):
                yield RecordChunk(blobs, base=base)
            stop = int(blobs.starts[-1] + blobs.lengths[-1] + 1) if len(blobs) else 0
            base, carry = base + stop, data[stop:]

    def _whole(self, data: bytes) -> Blobs:
        octets = np.frombuffer(data, np.uint8)
        ends: NDArray[np.int64] = np.flatnonzero(octets == ord("\n"))
        starts = np.concatenate([np.zeros(1, np.int64), ends + 1])[:-1]
        return Blobs(octets, starts, ends - starts)


class JsonLinesWriter(LinesWriter):
    """Appends JSON documents to one file."""

    def check(self, record: bytes) -> None:
        """Raise `SpecError` for a record that is no JSON document on one line."""
        if _JSON.match(record) is None:
            remedy = Remedy("Pass {payload}, or a spec, so that values are encoded.", payload="json")
            raise SpecError("a line of JSONL is one JSON document", remedy=remedy)

    def accepts_all(self, records: Sequence[bytes]) -> bool:
        return all(map(_JSON.match, records))
