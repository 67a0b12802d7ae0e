"""The FFRecord format: which files are of it, how they are opened and made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, PREFIX, header_bytes
from dataformats.backends.ffrecord.reader import FFRecordReader
from dataformats.backends.ffrecord.writer import FFRecordWriter
from dataformats.interfaces import BlobBackend, OpenOptions, SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32

__all__ = ["BACKEND", "FFRecordBackend"]

_WINDOW_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 2**20  # a longer one is judged by its first offset alone, 8 bytes that must fit


class FFRecordBackend(BlobBackend):
    """FFRecord 1.4: files, or a folder of `*.ffr` in the order of their names as strings."""

    name = "ffrecord"
    suffixes: tuple[str, ...] = (".ffr",)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return the names sorted as strings: `a10` before `a2`."""
        return sorted(names)

    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge by the header: without a magic number, its parts must fit each other and the file."""
        window = file.pread(0, _WINDOW_BYTES)
        if len(window) < PREFIX.size:
            return SniffResult("no", f"{len(window)} bytes are too few for a header of {PREFIX.size}")
        stored, n = PREFIX.unpack_from(window)
        if n == 0:
            return _judge_without_records(stored, file.size)
        if n > 0 and header_bytes(n) <= file.size:
            return _judge_header(file, stored, n, window)
        return _judge_count(window, n, file.size)

    def open(self, files: Sequence[StoredFile], options: OpenOptions, **backend_options: Any) -> FFRecordReader:
        """Return a reader, all headers read and verified."""
        _refuse(backend_options)
        return FFRecordReader(files, verify_checksums=options.verify_checksums)

    def create(
        self, path: Path, *, resume: bool = False, records: int | None = None, **backend_options: Any
    ) -> FFRecordWriter:
        """Return a writer of one file.

        Args:
            path: A local path.
            resume: Go on with what a killed writer left there.
            records: How many there will be, where that is known: `close` then has nothing to copy.
            **backend_options: None.
        """
        _refuse(backend_options)
        return FFRecordWriter(path, resume=resume, records=records)

    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return `PART_00000.ffr` and so on; the original has no place for a stem."""
        return [f"PART_{number:05d}.ffr" for number in range(count)]


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"ffrecord has no option {', '.join(sorted(options))}")


def _judge_without_records(stored: int, size: int) -> SniffResult:
    if size == PREFIX.size:
        sound = stored in (0, crc32(bytes(8)))
        return SniffResult("yes") if sound else SniffResult("damaged", "a header of no records with a wrong checksum")
    if stored == 0:
        return SniffResult("damaged", "unfinished: a header of zeros before data")
    if stored == crc32(bytes(8)):
        return SniffResult("damaged", "data behind a header of no records")
    return SniffResult("no", "no records, and no checksum of that")


def _judge_header(file: StoredFile, stored: int, n: int, window: bytes) -> SniffResult:
    """Judge a file that is large enough for the header of `n` records."""
    end = header_bytes(n)
    fits = int.from_bytes(file.pread(PREFIX.size + 4 * n, 8), "little", signed=True) == end
    if end > _MAX_HEADER_BYTES:
        return SniffResult("yes") if fits else SniffResult("no", f"the first offset does not fit {n} records")
    verified = crc32(file.pread(4, end - 4)) == stored
    if verified or (fits and stored == 0):
        return SniffResult("yes")
    if fits:
        return SniffResult("damaged", "the checksum of the header is wrong")
    return _judge_count(window, n, file.size)


def _judge_count(window: bytes, n: int, size: int) -> SniffResult:
    """Judge a file whose number of records does not fit it: is there the table of another number?"""
    real = _count_by_table(window, size)
    if real is None:
        return SniffResult("no", f"no header: {n} records with such a table do not fit {size} bytes")
    if real == n:
        return SniffResult("damaged", f"the header of {n} records is cut short")
    return SniffResult("damaged", f"the header announces {n} records and has the table of {real}")


def _count_by_table(window: bytes, size: int) -> int | None:
    """Return the m >= 2 for which byte 12 + 4 m holds the offset 12 + 12 m and a fitting one follows."""
    words = np.frombuffer(window, "<u4", (len(window) - PREFIX.size) // 4, PREFIX.size).astype(np.int64)
    m = np.arange(2, max(2, len(words) - 3))
    if len(m) == 0:
        return None
    start = PREFIX.size + ENTRY_BYTES * m
    following = words[m + 2] | words[m + 3] << 32
    fits = (words[m] == start) & (words[m + 1] == 0) & (following >= start) & (following <= size)
    return int(m[fits][0]) if fits.any() else None


BACKEND = FFRecordBackend()
