"""Reads headers of FFRecord files and says where their records are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from dataformats.backends.ffrecord.layout import RecordCheck
from dataformats.backends.ffrecord.table_index import TableIndex
from dataformats.indexing.lookup import fits_in_memory
from dataformats.indexing.reader import IndexedReader
from dataformats.interfaces import Check
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["FFRecordReader"]


class FFRecordReader(IndexedReader):
    """The records of FFRecord files. The beginnings of all headers are read when it is made.

    Where the headers together are small, they are verified then; else each is when a record of its file is first
    asked for, and one that is broken makes the records of its file unreadable, and no others.

    Args:
        files: In reading order.
        verify_checksums: Check the CRCs of headers and records; the structure is always checked.

    Raises:
        FormatError: A header is broken. A record whose offsets alone are broken raises when it is read.
    """

    def __init__(self, files: Sequence[StoredFile], *, verify_checksums: bool = True) -> None:
        super().__init__(files)
        self._verify = verify_checksums
        tables = self.each_file(self.load_index)
        if fits_in_memory(sum(map(len, tables))):
            self.each_file(lambda file: tables[file].prove())
        self._indexes = [*tables]
        _warn_of_old([file.name for file, table in zip(self.files, tables, strict=True) if table.is_old])

    @property
    def check(self) -> Check | None:
        """What verifies records; `None` where nobody wants it."""
        return RecordCheck() if self._verify else None

    def load_index(self, file: int) -> TableIndex:
        """Return the table of one file.

        Raises:
            FormatError: The number of records cannot be right.
        """
        return TableIndex(self.files[file], verify=self._verify)


def _warn_of_old(names: Sequence[str]) -> None:
    for name in sorted(names):
        message = f"{name!r} is of an old version of FFRecord: its header has no checksum to verify"
        warnings.warn(message, UserWarning, stacklevel=4)
