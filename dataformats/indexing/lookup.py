"""Look up the extents of records by index: the kernels hold the indexes of files, in memory or by their paths."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.block_file import ROWS
from dataformats.indexing.file_index import FileIndex, LazyProblems, PackedIndex, RecordIndex
from dataformats.indexing.memory_budget import INDEX_MEMORY
from dataformats.interfaces import Extents
from dataformats.kernels import look_up
from dataformats.storage.threads import concurrent_map

Part = Callable[[int, int, int], FileIndex]
"""Takes the number of a file, `first` and `stop`, and returns the extents of those records."""


class FilesOfRecords:
    """The file of each record, as an array of them would give it.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.

    Attributes:
        item: Returns the file of one record; the number of files if the record is out of range.
    """

    def __init__(self, starts: NDArray[np.int64]) -> None:
        self._starts = starts
        self.item: Callable[[int], int] = partial(bisect_right, starts[1:].tolist())

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, records: NDArray[np.int64]) -> NDArray[np.int32]:
        return _file_of(self._starts, records)


class RecordLookup:
    """Finds the extents of records in the indexes of files, which are loaded as records are requested. Thread-safe.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        indexes: File to index; others may take their places.
        handle: The result of `hold_index`; `None` without compiled kernels, or if indexes are not packed.
        local: True if indexes are read from the local disk.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        indexes: Sequence[RecordIndex] | Mapping[int, RecordIndex],
        handle: Any,
        *,
        local: bool,
    ) -> None:
        self.handle = handle
        self._starts = starts
        self._indexes = indexes
        self._local = local
        self._held = np.zeros(len(starts) - 1, bool)
        self._complete = handle is None
        self._failed: dict[int, RecordIndex] = {}
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def load(self, records: NDArray[np.int64]) -> None:
        """Give the kernels the indexes of the files with these records, any numbers."""
        if self._complete:
            return
        inside = records if len(self._starts) == 2 else records[(records >= 0) & (records < self._starts[-1])]
        file = _file_of(self._starts, inside)
        if self._held[file].all():
            return
        with self._lock:
            for number in np.flatnonzero(np.bincount(file[~self._held[file]])).tolist():
                index = self._indexes[number]
                if self._failed.get(number) is not index:
                    # `isinstance` of a protocol takes 50 us in Python 3.11.
                    self._held[number] = hasattr(index, "packed") and self._hold(number, cast(PackedIndex, index))
                    if not self._held[number]:
                        self._failed[number] = index
            self._complete = bool(self._held.all())

    def _hold(self, file: int, index: PackedIndex) -> bool:
        """Give the kernels the index of a file; return False if it cannot be read, or would be kept in vain."""
        try:
            packed = index.packed()
            if packed.path is not None and not INDEX_MEMORY.take(self, packed.n_bytes):
                return packed.hold(self.handle, file, os.fsencode(packed.path), True, packed.base)
            return packed.hold(self.handle, file, packed.read(), False, 0)
        except (OSError, FormatError):
            return False  # the reader repairs it, or reports why it cannot

    def find(self, records: NDArray[np.int64], part_of: Part) -> Extents:
        """Return the extents of these records.

        Args:
            records: int64[n], each in `[0, starts[-1])`.
            part_of: Reads the records that the kernels do not find, as those with a problem.
        """
        n = len(records)
        file, offset, length = np.empty(n, np.int32), np.empty(n, np.int64), np.full(n, -1, np.int64)
        stored = np.zeros(n, np.uint32)
        if self.handle is None:
            file = _file_of(self._starts, records)
        else:
            self.load(records)
        if self.handle is not None and not look_up(self.handle, records, (file, offset, length, stored)):
            return Extents(file, offset, length, stored=stored)
        problems: dict[int, FormatError] = {}
        has_stored = self.handle is not None
        for rows, at, part in self._parts(records, np.flatnonzero(length < 0), part_of):
            offset[rows], length[rows] = part.offset[at], part.length[at]
            if part.stored is not None:
                stored[rows], has_stored = part.stored[at], True
            if part.problems:
                pairs = zip(rows.tolist(), at.tolist(), strict=True)
                problems |= {row: part.problems[i] for row, i in pairs if i in part.problems}
        return Extents(file, offset, length, stored=stored if has_stored else None, problems=problems)

    def _parts(
        self, records: NDArray[np.int64], rows: NDArray[np.int64], part_of: Part
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64], FileIndex]]:
        """Return parts of indexes, each with the rows that it has, and their places in it."""
        where = split_by_file(self._starts, records[rows])
        blocks: list[tuple[NDArray[np.int64], NDArray[np.int64], int, int, int]] = []
        for file, group in where.groups.items():
            n, local, here = int(self._starts[file + 1] - self._starts[file]), where.local[group], rows[group]
            size = n if isinstance(self._indexes[file], FileIndex) else ROWS
            for block, inside in _groups(local // size).items():
                first = block * size
                blocks.append((here[inside], local[inside] - first, file, first, min(first + size, n)))
        if self._local:  # threads that share Python make a batch from a warm disk four times slower
            parts = [_part_or_problem(part_of, *block[2:]) for block in blocks]
        else:
            parts = concurrent_map(lambda block: _part_or_problem(part_of, *block[2:]), blocks, local=False)
        return [(here, at, part) for (here, at, *_), part in zip(blocks, parts, strict=True)]


class RecordsByFile(NamedTuple):
    """Records, grouped by the files (or other parts) that hold them.

    Attributes:
        file: int32[n], the file of each record.
        local: int64[n], its index in that file.
        groups: File to the rows of its records, for files that hold any.
    """

    file: NDArray[np.int32]
    local: NDArray[np.int64]
    groups: Mapping[int, NDArray[np.int64] | slice]


def split_by_file(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> RecordsByFile:
    """Group records by file.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        indices: int64[n], each in `[0, starts[-1])`.
    """
    file = _file_of(starts, indices)
    if len(starts) == 2:
        return RecordsByFile(file, indices, {0: slice(None)} if len(indices) else {})
    return RecordsByFile(file, indices - starts[file], _groups(file))


def _groups(numbers: NDArray[Any]) -> dict[int, NDArray[np.int64]]:
    """Return the rows of each number, ascending."""
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    return dict(zip(numbers[order[edges]].tolist(), np.split(order, edges)[1:], strict=True))


def _file_of(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int32]:
    if len(starts) == 2:
        return np.zeros(len(indices), np.int32)
    return (np.searchsorted(starts, indices, side="right") - 1).astype(np.int32)


def _part_or_problem(part_of: Part, file: int, first: int, stop: int) -> FileIndex:
    """Return a part of an index; if the index is damaged, its records have that problem, and no other file's."""
    try:
        return part_of(file, first, stop)
    except FormatError as error:
        problem, n = error, stop - first
        problems = LazyProblems(np.ones(n, bool), lambda _: problem)
        return FileIndex(np.zeros(n, np.int64), np.zeros(n, np.int64), None, problems)
