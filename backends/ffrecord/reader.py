"""Reads the headers of FFRecord files and locates their records."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.ffrecord.layout import RecordCheck
from dataformats.backends.ffrecord.table_index import TableIndex
from dataformats.indexing.file_index import FileIndex
from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces import Check
from dataformats.interfaces.stored_file import StoredFile

_VERIFIED_AT_OPEN = 5_000_000  # records: their headers take 60 MB


class FFRecordReader(FilesReader):
    """The records of FFRecord files. The constructor reads the beginning of each header.

    It also verifies the headers, if all together are small. Otherwise each header is verified at the first read of a
    record of its file, and a broken header makes only the records of its file unreadable.

    Args:
        verify_checksums: Check the CRCs of headers and records; the structure is always checked.
        counts: int64[n_files], the records of each file, if they are known: each header is then read at its first use.

    Raises:
        FormatError: A header is broken. If only the offsets of a record are broken, reading that record raises.
    """

    is_packed = True
    has_stored = True

    def __init__(
        self,
        files: Sequence[StoredFile],
        *,
        verify_checksums: bool = True,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(files, counts=counts)
        self._verify = verify_checksums
        if counts is not None:
            return
        tables = dict(zip(self.files, self.each_file(self._table_of), strict=True))
        if sum(map(len, tables.values())) <= _VERIFIED_AT_OPEN:
            self.each_file(lambda file: tables[file].verify())
        self._indexes = [FileIndex.of_blobs(tables[file]) for file in self.files]
        _warn_of_old_version([file.name for file, table in tables.items() if table.is_old])

    @property
    def check(self) -> Check | None:
        """The check of records; `None` without `verify_checksums`."""
        return RecordCheck() if self._verify else None

    def index_of(self, file: StoredFile) -> FileIndex:
        """Return the table of one file.

        Raises:
            FormatError: The number of records is impossible.
        """
        return FileIndex.of_blobs(self._table_of(file))

    def _table_of(self, file: StoredFile) -> TableIndex:
        return TableIndex(file, verify=self._verify)


def _warn_of_old_version(names: Sequence[str]) -> None:
    for name in sorted(names):
        message = f"{name!r} is of an old version of FFRecord: its header has no checksum to verify"
        warnings.warn(message, UserWarning, stacklevel=4)
