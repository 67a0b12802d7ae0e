"""Look up the extents of records by index: the kernels hold the indexes of files, in memory or by their paths."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.block_file import ROWS
from dataformats.indexing.file_index import ArrayIndex, FieldIndex
from dataformats.indexing.memory_budget import INDEX_MEMORY
from dataformats.interfaces import Extents
from dataformats.kernels import look_up
from dataformats.storage.threads import concurrent_map

Part = Callable[[int, int, int], ArrayIndex]
"""Takes the number of a file, `first` and `stop`, and returns the extents of those records."""

Rows: TypeAlias = NDArray[np.int64] | slice


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
        return file_of(self._starts, records)


class RecordLookup:
    """Finds the extents of blobs in the indexes of files, which are loaded as records are requested. Thread-safe.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        index_of: Returns the index of a file; another may take its place.
        handle: The result of `hold_index`; `None` without compiled kernels.
        local: True if indexes are read from the local disk.
    """

    def __init__(
        self, starts: NDArray[np.int64], index_of: Callable[[int], FieldIndex], handle: Any, *, local: bool
    ) -> None:
        self.handle = handle
        self._starts = starts
        self._index_of = index_of
        self._local = local
        self._held = np.zeros(len(starts) - 1, bool)
        self._complete = handle is None
        self._failed: dict[int, FieldIndex] = {}
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def load(self, records: NDArray[np.int64]) -> None:
        """Give the kernels the indexes of the files with these records, any numbers."""
        if self._complete:
            return
        inside = records if len(self._starts) == 2 else records[(records >= 0) & (records < self._starts[-1])]
        file = file_of(self._starts, inside)
        if self._held[file].all():
            return
        with self._lock:
            for number in np.flatnonzero(np.bincount(file[~self._held[file]])).tolist():
                index = self._index_of(number)
                if self._failed.get(number) is not index:
                    self._held[number] = self._hold(number, index)
                    if not self._held[number]:
                        self._failed[number] = index
            self._complete = bool(self._held.all())

    def _hold(self, file: int, index: FieldIndex) -> bool:
        """Give the kernels the index of a file; return False if it cannot be read, or would be kept in vain."""
        if isinstance(index, ArrayIndex):
            return False
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
        if self.handle is None:
            return self._read(records, part_of)
        n = len(records)
        file, offset, length = np.empty(n, np.int32), np.empty(n, np.int64), np.full(n, -1, np.int64)
        stored = np.zeros(n, np.uint32)
        self.load(records)
        if not look_up(self.handle, records, (file, offset, length, stored)):
            return Extents(file, offset, length, stored=stored)
        rows = np.flatnonzero(length < 0)
        found = self._read(records[rows], part_of)
        offset[rows], length[rows] = found.offset, found.length
        stored[rows] = 0 if found.stored is None else found.stored
        problems = {int(rows[row]): error for row, error in found.problems.items()}
        return Extents(file, offset, length, stored=stored, problems=problems)

    def _read(self, records: NDArray[np.int64], part_of: Part) -> Extents:
        """Return the extents of these records, without the kernels."""
        where, n = split_by_file(self._starts, records), len(records)
        offset, length, problems = np.zeros(n, np.int64), np.zeros(n, np.int64), dict[int, FormatError]()
        stored: NDArray[np.uint32] | None = None
        parts = self._parts(where, part_of)
        if parts:  # to write all of them at once is cheaper, and small integers are converted at once
            rows = parts[0][0] if len(parts) == 1 else np.concatenate([np.arange(n)[rows] for rows, _, _ in parts])
            offset[rows] = np.concatenate([part.offset[at] for _, at, part in parts])
            length[rows] = np.concatenate([part.length[at] for _, at, part in parts])
        for rows, at, part in parts:
            if part.stored is not None:
                stored = np.zeros(n, np.uint32) if stored is None else stored
                stored[rows] = part.stored[at]
            if part.problems:
                places = zip(np.arange(n)[rows].tolist(), at.tolist(), strict=True)
                problems |= {row: part.problems[record] for row, record in places if record in part.problems}
        return Extents(where.file, offset, length, stored=stored, problems=problems)

    def _parts(self, where: RecordsByFile, part_of: Part) -> list[tuple[Rows, NDArray[np.int64], ArrayIndex]]:
        """Return parts of indexes, each with the rows that it has, and their places in it."""
        found: list[tuple[Rows, NDArray[np.int64], ArrayIndex]] = []
        blocks: list[tuple[Rows, NDArray[np.int64], int, int, int]] = []
        for file, rows in where.groups.items():
            index, records = self._index_of(file), where.local[rows]
            if isinstance(index, ArrayIndex):
                found.append((rows, records, index))
                continue
            here = np.arange(len(where.local))[rows]
            for block, inside in _groups(records // ROWS).items():
                first = block * ROWS
                blocks.append((here[inside], records[inside] - first, file, first, min(first + ROWS, len(index))))
        read = partial(_part_or_problem, part_of)
        # Threads that share Python make a batch from a warm disk four times slower.
        parts = [read(block) for block in blocks] if self._local else concurrent_map(read, blocks, local=False)
        return found + [(*block[:2], part) for block, part in zip(blocks, parts, strict=True)]


class RecordsByFile(NamedTuple):
    """Records, grouped by the files (or other parts) that hold them.

    Attributes:
        file: int32[n], the file of each record.
        local: int64[n], its index in that file.
        groups: File to the rows of its records, for files that hold any.
    """

    file: NDArray[np.int32]
    local: NDArray[np.int64]
    groups: Mapping[int, Rows]


def split_by_file(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> RecordsByFile:
    """Group records by file.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        indices: int64[n], each in `[0, starts[-1])`.
    """
    file = file_of(starts, indices)
    if len(starts) == 2:
        return RecordsByFile(file, indices, {0: slice(None)} if len(indices) else {})
    return RecordsByFile(file, indices - starts[file], _groups(file))


def _groups(numbers: NDArray[Any]) -> dict[int, NDArray[np.int64]]:
    """Return the rows of each number, ascending."""
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    return dict(zip(numbers[order[edges]].tolist(), np.split(order, edges)[1:], strict=True))


def file_of(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return int32[n], the file of each of these records: see `split_by_file`."""
    if len(starts) == 2:
        return np.zeros(len(indices), np.int32)
    return (np.searchsorted(starts, indices, side="right") - 1).astype(np.int32)


def _part_or_problem(part_of: Part, block: tuple[Rows, NDArray[np.int64], int, int, int]) -> ArrayIndex:
    """Return a part of an index; if the index is damaged, its records have that problem, and no other file's."""
    *_, file, first, stop = block
    try:
        return part_of(file, first, stop)
    except FormatError as error:
        none = np.zeros(stop - first, np.int64)
        return ArrayIndex(none, none, None, dict.fromkeys(range(stop - first), error))
