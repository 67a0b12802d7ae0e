"""The extents of all records of a source, held by the kernels, which look indices up themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.indexing.files_reader import FilesReader
from dataformats.indexing.lookup import FilesOfRecords, RecordLookup
from dataformats.indexing.memory_budget import INDEX_MEMORY
from dataformats.interfaces import Extents, Reader
from dataformats.storage.native.fast_read import FileNumbers, PinnedRows, PinnedTable, pin_extents

_MAX_CHOICES = 1024  # choices of fields; some callers make another one in each call
_PART = 16  # the table is made after so large a part of the records was requested: that costs as much as locating all
_CALL = 128  # a call without the table costs as much as this many records
_FILE = 256  # the table opens files that no read has opened yet; each costs as much as this many records
_EXTENT_BYTES = 24  # file, offset, length, checksum


class ExtentTable:
    """The extents of all records, which the kernels look up. Thread-safe.

    Packed indexes are looked up where they lie. Other extents are pinned field by field when that pays.

    Args:
        reader: Knows the extents; `None` if the kernels cannot read its files.
    """

    def __init__(self, reader: Reader | None) -> None:
        self._reader = reader
        self._lookup: RecordLookup | None = None
        self._pinned: dict[str, tuple[Any, FileNumbers]] = {}
        self._tables: dict[tuple[str, ...], PinnedTable] = {}
        self._n_requested = self._due = 0

    def known(self, fields: tuple[str, ...]) -> PinnedTable | None:
        """Return the table of these stored fields if `locate` has made it."""
        return self._tables.get(fields)

    def locate(self, records: NDArray[np.int64], fields: tuple[str, ...]) -> PinnedRows | None:
        """Return a reference to the extents of these records; `None` if the reader must locate them.

        Args:
            records: int64[n], any numbers.
            fields: Their stored fields.
        """
        table = self._tables.get(fields) or self._make(fields, len(records))
        if self._lookup is not None:
            self._lookup.load(records)
        return None if table is None else PinnedRows(table, records)

    def _make(self, fields: tuple[str, ...], n_records: int) -> PinnedTable | None:
        missing = [name for name in fields if name not in self._pinned]
        if self._reader is None or not fields or not self._pin(self._reader, missing, n_records):
            return None
        if len(self._tables) >= _MAX_CHOICES:
            self._tables.clear()
        pinned = [self._pinned[name] for name in fields]
        handles, files = tuple([handle for handle, _ in pinned]), tuple([file for _, file in pinned])
        table = self._tables[fields] = PinnedTable(fields, handles, files)
        return table

    def _pin(self, reader: Reader, missing: list[str], n_records: int) -> bool:
        """Pin the extents of these fields; return True if all fields are pinned."""
        if not missing:
            return True
        if isinstance(reader, FilesReader) and reader.is_packed:
            self._lookup = reader.lookup
            self._pinned[missing[0]] = self._lookup.handle, FilesOfRecords(reader.starts)
            return self._lookup.handle is not None
        self._n_requested += n_records + _CALL
        if self._n_requested < self._due:
            return False
        n = int(reader.counts.sum())
        least = n // _PART + _FILE * len(reader.files)
        is_early = self._n_requested < least
        self._due = least if is_early else 2 * self._n_requested
        if is_early or not INDEX_MEMORY.take(self, n * _EXTENT_BYTES * len(missing)):
            return False
        for field in missing:
            extents = reader.all_extents(field)
            handle = None if extents is None else pin_extents(with_problems_unreadable(extents))
            if extents is None or handle is None:
                return False
            self._pinned[field] = handle, extents.file
        return True


def with_problems_unreadable(extents: Extents) -> Extents:
    """Give records with a problem a negative length, so that the kernels reject them and the caller falls back."""
    if not extents.problems:
        return extents
    length = extents.length.copy()
    length[np.fromiter(extents.problems, np.int64, len(extents.problems))] = -1
    around = (extents.head, extents.tail, extents.stored, extents.check)
    return Extents(extents.file, extents.offset, length, *around)
