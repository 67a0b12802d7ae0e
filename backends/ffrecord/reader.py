"""Reads headers of FFRecord files and says where their records are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial

from dataformats.backends.ffrecord.layout import (
    PREFIX,
    Prefix,
    RecordCheck,
    Table,
    header_bytes,
    parse_prefix,
    parse_table,
    verify_header,
)
from dataformats.errors import FormatError, TruncatedError
from dataformats.indexed import FileIndex, IndexedReader, LazyProblems
from dataformats.interfaces import Check
from dataformats.storage.files import StoredFile

__all__ = ["FFRecordReader"]


class FFRecordReader(IndexedReader):
    """The records of FFRecord files. All headers (12 + 12 N bytes a file) are read when it is made.

    Args:
        files: In reading order.
        verify_checksums: Check the CRCs of headers and records; the structure is always checked.

    Raises:
        FormatError: A header is broken. A record whose offsets alone are broken raises when it is read.
    """

    def __init__(self, files: Sequence[StoredFile], *, verify_checksums: bool = True) -> None:
        super().__init__(files)
        self._verify = verify_checksums
        self._old: list[str] = []
        if self.indexes:
            self._warn_of_old_files()

    @property
    def check(self) -> Check | None:
        """What verifies records; `None` where nobody wants it."""
        return RecordCheck() if self._verify else None

    def load_index(self, file: int) -> FileIndex:
        """Return the index of one file, from its verified header.

        Raises:
            FormatError: The header is broken.
        """
        stored = self.files[file]
        prefix = parse_prefix(stored.pread(0, PREFIX.size), stored.size, stored.name)
        header = _read_header(stored, header_bytes(prefix.n_records))
        if prefix.checksum == 0:
            self._old.append(stored.name)
        elif self._verify:
            verify_header(header, stored.name)
        table = parse_table(header, prefix.n_records, stored.size)
        if prefix.checksum == 0 or not self._verify:
            _check_first_offset(prefix, table, stored.name)
        return self._index(table, stored.name)

    def _index(self, table: Table, path: str) -> FileIndex:
        wrong = table.impossible()
        if not self._verify:
            # A record between two offsets of which one is wrong: its CRC would have told.
            wrong |= table.doubtful()
        problems = LazyProblems(wrong, partial(table.problem, path=path))
        return FileIndex(table.offsets, table.lengths(), table.checksums, problems)

    def _warn_of_old_files(self) -> None:
        for path in sorted(self._old):
            message = f"{path!r} is of an old version of FFRecord: its header has no checksum to verify"
            warnings.warn(message, UserWarning, stacklevel=4)


def _read_header(file: StoredFile, n_bytes: int) -> bytearray:
    header = bytearray(n_bytes)
    n = file.read_into(0, memoryview(header))
    if n != n_bytes:
        expected, found = f"a header of {n_bytes} bytes", f"{n} bytes"
        raise TruncatedError("the file ends early", path=file.name, expected=expected, found=found)
    return header


def _check_first_offset(prefix: Prefix, table: Table, path: str) -> None:
    """Refuse a table that no CRC vouches for where the first offset says that N may be wrong."""
    if prefix.n_records and table.offsets[0] != table.first:
        raise FormatError(
            "the first offset does not fit the number of records, and no checksum says which is right",
            path=path,
            offset_bytes=PREFIX.size + 4 * prefix.n_records,
            expected=table.first,
            found=int(table.offsets[0]),
        )
