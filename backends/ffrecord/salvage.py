"""Finds the sound records of a damaged FFRecord file.

The checksum of a record proves its bytes and its place, so a damaged header costs only the records whose entries are
wrong. Without a table, the records are located by the journal of the writer, or by themselves if they are pickles.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from dataformats.backends.ffrecord.layout import (
    ENTRY_BYTES,
    PREFIX,
    build_header,
    header_bytes,
    parse_prefix,
)
from dataformats.backends.ffrecord.reader import FFRecordReader
from dataformats.backends.ffrecord.writer import JOURNAL_METADATA, moved_records
from dataformats.errors import FormatError
from dataformats.interfaces import ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32
from dataformats.reading.salvage_rows import salvage_blobs, salvage_spliced
from dataformats.storage.record_journal import journal_of

_STEP = 4 * 2**20
_BUFFER = 2**16
_PICKLE = b"\x80"  # how pickles begin, from protocol 2 on
_PROTOCOLS = range(2, 6)


def salvage(file: StoredFile) -> ShardSalvage:
    """Find the sound records of a file.

    Raises:
        FormatError: Nothing locates the records.
    """
    prefix = file.pread(0, PREFIX.size)
    if len(prefix) < PREFIX.size:
        parse_prefix(prefix, file.size, file.name)  # raises
    stored, n = PREFIX.unpack(prefix)
    if 0 <= n <= _most(file) and stored == _checksum(file, n):
        return _by_table(file, n)
    journal = journal_of(file)
    if file.local is not None and journal is not None and journal.metadata == JOURNAL_METADATA:
        (base,), entries = moved_records(Path(file.local), journal) or journal.bases, journal.load()
        note = "the header is missing; the journal of the writer locates the records"
        return _by_lengths(file, base, entries.lengths, entries.checksums[:, 0], note)
    found = _count(file, n)
    if found is None:
        return _by_pickles(file, prefix)
    what = "of an old version, without a checksum" if stored == 0 and found == n else "damaged"
    return _by_table(file, found, f"the header is {what}; each record is checked by itself")


# ---- by the table


def _by_table(file: StoredFile, n: int, note: str = "") -> ShardSalvage:
    """Return the records of a table with `n` entries, each proven by its checksum."""
    if not note:
        return ShardSalvage(salvage_blobs(FFRecordReader([file]), n, file.size))
    return _spliced(file, [PREFIX.pack(_checksum(file, n), n), range(PREFIX.size, file.size)], n, note)


def _checksum(file: StoredFile, n: int) -> int:
    """Return the checksum of a header of `n` records, which fits into the file."""
    computed, end = crc32(n.to_bytes(8, "little")), header_bytes(n)
    for at in range(PREFIX.size, end, _STEP):
        computed = crc32(file.pread(at, min(_STEP, end - at)), computed)
    return computed


def _most(file: StoredFile) -> int:
    """Return how many entries the table of a file may have."""
    return (file.size - PREFIX.size) // ENTRY_BYTES


def _count(file: StoredFile, n: int) -> int | None:
    """Return the number of entries in the table; the header says `n`. `None` if there is no table."""
    fits = 0 < n <= _most(file)
    if fits and _first_offset(file, n) == header_bytes(n):
        return n
    return _find_count(file) or (n if fits else None)


def _first_offset(file: StoredFile, n: int) -> int:
    return int.from_bytes(file.pread(PREFIX.size + 4 * n, 8), "little")


def _find_count(file: StoredFile) -> int | None:
    """Return the number of entries of a table by its first offset, which depends on that number."""
    most = _most(file)
    for first in range(1, most + 1, _STEP // 4):
        n = np.arange(first, min(first + _STEP // 4, most + 1))
        octets = file.pread(PREFIX.size + 4 * first, 4 * len(n) + 4)
        words = np.frombuffer(octets, "<u4", len(octets) // 4).astype(np.int64)
        n = n[: len(words) - 1]
        fits = (words[:-1] == (PREFIX.size + ENTRY_BYTES * n) & 0xFFFFFFFF) & (
            words[1:] == (PREFIX.size + ENTRY_BYTES * n) >> 32
        )
        if fits.any():
            return int(n[fits][0])
    return None


# ---- without a table


def _by_lengths(
    file: StoredFile, base: int, lengths: Sequence[int] | np.ndarray, checksums: Sequence[int] | np.ndarray, note: str
) -> ShardSalvage:
    """Return the records of these lengths, back to back from byte `base` on; the bytes behind them are lost."""
    sizes = np.asarray(lengths, np.int64)
    header = build_header(sizes, checksums)
    end = min(base + int(sizes.sum()), file.size)
    return _spliced(file, [header, range(base, end)], len(sizes), note)


def _spliced(file: StoredFile, pieces: Sequence[bytes | range], n: int, note: str) -> ShardSalvage:
    """Return the first `n` records of a file with another header."""

    def salvage_sound(sound: StoredFile) -> ShardSalvage:
        return ShardSalvage(salvage_blobs(FFRecordReader([sound]), n, sound.size))

    return salvage_spliced(file, pieces, salvage_sound, note, "nothing locates records in these bytes", index=n)


def _by_pickles(file: StoredFile, prefix: bytes) -> ShardSalvage:
    """Return the records of a file without a header if they are pickles, which show where they end."""
    first = _first_byte(file)
    lengths: list[int] = []
    checksums: list[int] = []
    if not any(prefix) and first % ENTRY_BYTES == 0:
        for start, stop in _pickles(file, first):
            lengths.append(stop - start)
            checksums.append(crc32(file.pread(start, stop - start)))
    if not lengths:
        raise FormatError(
            "nothing can be saved: no header locates the records",
            path=file.name,
            offset_bytes=0,
            expected="a header, the journal of the writer, or pickles behind a header of zeros",
            found=prefix.hex(" "),
        )
    note = "there is no header: the records are pickles that end where the next one begins, and no checksum proves them"
    return _by_lengths(file, first, lengths, checksums, note)


def _first_byte(file: StoredFile) -> int:
    """Return the place of the first byte that is not 0."""
    for at in range(0, file.size, _STEP):
        piece = file.pread(at, _STEP)
        if any(piece):
            return at + len(piece) - len(piece.lstrip(b"\0"))
    return file.size


def _pickles(file: StoredFile, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of pickles back to back from byte `offset` on, up to the first that is not whole."""
    while offset < file.size:
        stream = _PickleStream(file, offset)
        head = file.pread(offset, 2)
        if head[:1] != _PICKLE or len(head) < 2 or head[1] not in _PROTOCOLS:
            return
        try:
            for _ in pickletools.genops(cast(IO[bytes], stream)):
                pass
        except (ValueError, OverflowError, EOFError, LookupError, ArithmeticError):
            return
        yield offset, stream.at
        offset = stream.at


class _PickleStream:
    """The bytes of a file from a place on, as `pickletools` reads them. No more is read than there is.

    Attributes:
        at: The next byte in the file.
    """

    def __init__(self, file: StoredFile, offset: int) -> None:
        self._file = file
        self.at = offset
        self._base, self._buffer = offset, b""

    def read(self, n: int) -> bytes:
        first = self.at - self._base
        found = self._buffer[first : first + n]
        if len(found) < n:
            found = self._file.pread(self.at, n)
            self._base, self._buffer = self.at + len(found), self._file.pread(self.at + len(found), _BUFFER)
        self.at += len(found)
        return found

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and self.at < self._file.size:
            line += self.read(1)
        return line

    def tell(self) -> int:
        return self.at
