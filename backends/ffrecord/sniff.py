"""Recognizes an FFRecord file by its header. There is no magic number: its parts must fit each other and the file."""

from __future__ import annotations

import numpy as np

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, PREFIX, header_bytes
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32

_WINDOW_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 2**20  # only the first offset of a longer header is checked, 8 bytes that must fit


def sniff_header(file: StoredFile, *, has_name: bool) -> SniffResult:
    """Recognize a non-empty file by its header.

    Args:
        file: The file.
        has_name: True if its name is one of an FFRecord file.
    """
    window = file.pread(0, _WINDOW_BYTES)
    if len(window) < PREFIX.size:
        return SniffResult("no", f"{len(window)} bytes are too few for a header of {PREFIX.size}")
    stored, n = PREFIX.unpack_from(window)
    if n == 0:
        return _sniff_no_records(stored, file.size, has_name)
    if n > 0 and header_bytes(n) <= file.size:
        return _sniff_table(file, stored, n, window)
    return _sniff_other_count(window, n, file.size)


def _sniff_no_records(stored: int, size: int, has_name: bool) -> SniffResult:
    if size == PREFIX.size:
        sound = stored in (0, crc32(bytes(8)))
        return SniffResult("yes") if sound else SniffResult("damaged", "a header of no records with a wrong checksum")
    if stored == 0:
        return SniffResult("damaged" if has_name else "no", "unfinished: a header of zeros before data")
    if stored == crc32(bytes(8)):
        return SniffResult("damaged", "data behind a header of no records")
    return SniffResult("no", "its header says 0 records, with a wrong checksum")


def _sniff_table(file: StoredFile, stored: int, n: int, window: bytes) -> SniffResult:
    """Recognize a file that is large enough for the header of `n` records."""
    end = header_bytes(n)
    fits = int.from_bytes(file.pread(PREFIX.size + 4 * n, 8), "little", signed=True) == end
    if end > _MAX_HEADER_BYTES:
        return SniffResult("yes") if fits else SniffResult("no", f"the first offset does not fit {n} records")
    verified = crc32(file.pread(4, end - 4)) == stored
    if verified or (fits and stored == 0):
        return SniffResult("yes")
    if fits:
        return SniffResult("damaged", "the checksum of the header is wrong")
    return _sniff_other_count(window, n, file.size)


def _sniff_other_count(window: bytes, n: int, size: int) -> SniffResult:
    """Recognize a file whose number of records does not fit, by the table of another number of records."""
    actual = _count_by_table(window, size)
    if actual is None:
        return SniffResult("no", f"not a header: a table of {n} records does not fit {size} bytes")
    if actual == n:
        return SniffResult("damaged", f"the header of {n} records is cut short")
    return SniffResult("damaged", f"the header says {n} records, but its table holds {actual}")


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
