"""The index of an FFRecord file: the table in its header, verified once and read in parts."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from dataformats.backends.ffrecord.layout import (
    ENTRY_BYTES,
    PREFIX,
    RecordTable,
    header_bytes,
    parse_entries,
    parse_prefix,
)
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.indexing.file_index import ArrayIndex, LazyProblems, PackedRows
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32, hold_table

_STEP = 2**20


class TableIndex:
    """Locates the records of one file by its table, and holds nothing of it in memory. Thread-safe.

    Args:
        file: The file.
        verify: Check the CRC of the header, 12 bytes a record, before the first use of the table.

    Raises:
        FormatError: The number of records is impossible.
    """

    __slots__ = ("_file", "_is_verified", "_prefix", "_verify")

    def __init__(self, file: StoredFile, *, verify: bool) -> None:
        self._file = file
        self._prefix = parse_prefix(file.pread(0, PREFIX.size), file.size, file.name)
        self._verify = verify
        self._is_verified = False

    def __len__(self) -> int:
        return self._prefix.n_records

    @property
    def is_old(self) -> bool:
        """True if the header has no checksum."""
        return self._prefix.checksum == 0

    @property
    def digest(self) -> str:
        """The CRC of the table, because to read all tables may take minutes; a digest if there is no CRC."""
        if not self.is_old:
            return f"{len(self)} {self._prefix.checksum:08x}"
        state = hashlib.blake2b(digest_size=16)
        for at in range(0, header_bytes(len(self)), _STEP):
            state.update(self._read(at, min(_STEP, header_bytes(len(self)) - at)))
        return state.hexdigest()

    def verify(self) -> None:
        """Check the header, once.

        Raises:
            FormatError: It is broken.
        """
        if self._is_verified:
            return
        if self._verify and not self.is_old:
            self._check_crc()
        elif len(self):
            self._check_first_offset()
        self._is_verified = True

    def part(self, first: int, stop: int) -> ArrayIndex:
        """Return where the records `[first, stop)` lie.

        Raises:
            FormatError: The header is broken.
        """
        self.verify()
        low, high = max(first - 1, 0), min(stop + 1, len(self))  # a record is checked with its neighbors
        table = self.entries(low, high)
        wrong = table.impossible()
        if not self._verify:
            # Records next to a wrong offset: with checksums, their CRC shows which of them are sound.
            wrong |= table.doubtful()
        problems = LazyProblems(wrong, partial(table.problem, path=self._file.name)) if wrong.any() else {}
        whole = ArrayIndex(table.offsets, table.lengths(), table.checksums, problems)
        return whole.part(first - low, stop - low)

    def packed(self) -> PackedRows:
        """Return where the table lies, for the kernels.

        Raises:
            FormatError: The header is broken.
        """
        self.verify()
        n, size = len(self), self._file.size

        def hold(handle: Any, file: int, source: bytes, is_path: bool, base: int) -> bool:
            return hold_table(handle, file, n, source, is_path, (base + 4 * n, base, header_bytes(n), size))

        n_bytes = ENTRY_BYTES * n
        return PackedRows(n_bytes, self._file.local, PREFIX.size, lambda: self._read(PREFIX.size, n_bytes), hold)

    def entries(self, low: int = 0, high: int | None = None) -> RecordTable:
        """Return the entries of the records `[low, high)` as stored, all by default; nothing is verified."""
        n = len(self)
        high = n if high is None else high
        checksums = self._read(PREFIX.size + 4 * low, 4 * (high - low))
        offsets = self._read(PREFIX.size + 4 * n + 8 * low, 8 * (min(high + 1, n) - low))
        return parse_entries(checksums, offsets, size=self._file.size, n_records=n, first_record=low)

    def _read(self, offset: int, n_bytes: int) -> bytes:
        data = self._file.pread(offset, n_bytes)
        if len(data) != n_bytes:
            raise TruncatedError(
                "the file ends inside its header",
                path=self._file.name,
                offset_bytes=offset,
                expected=f"{n_bytes} bytes of the header",
                found=f"{len(data)} bytes",
            )
        return data

    def _check_crc(self) -> None:
        computed, end = 0, header_bytes(len(self))
        for at in range(4, end, _STEP):
            computed = crc32(self._read(at, min(_STEP, end - at)), computed)
        if computed != self._prefix.checksum:
            what, stored = "the checksum of the header is wrong", self._prefix.checksum
            raise ChecksumError(what, stored=stored, computed=computed, path=self._file.name, offset_bytes=0)

    def _check_first_offset(self) -> None:
        """Refuse a table without a CRC if its first offset contradicts the number of records."""
        place = PREFIX.size + 4 * len(self)
        found = int.from_bytes(self._read(place, 8), "little", signed=True)
        if found != header_bytes(len(self)):
            raise FormatError(
                "the first offset contradicts the number of records, and there is no checksum to decide",
                path=self._file.name,
                offset_bytes=place,
                expected=header_bytes(len(self)),
                found=found,
            )
