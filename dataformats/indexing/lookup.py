"""Look up the extents of records by index: in arrays over all files, or in blocks that are read on demand."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.block_file import ROWS
from dataformats.indexing.file_index import FileIndex, LazyProblems
from dataformats.interfaces import Extents
from dataformats.storage.threads import concurrent_map

__all__ = ["InMemoryLookup", "Lookup", "PagedLookup", "RecordsByFile", "fits_in_memory", "lookup", "split_by_file"]

_MAX_BYTES = 128 * 2**20
_HELD_BYTES = 32 * 2**20
_RECORD_BYTES = 24  # file, offset, length, checksum
_BLOCK_EXTRA = 1000  # bytes of Python objects around the arrays of a block, about
_AT_ONCE = 1024  # blocks from which records are taken together; each has some 10 KB
_MOST_BLOCKS = 40  # bits of a block's number in a key

Part = Callable[[int, int, int], FileIndex]
"""Takes the number of a file, `first` and `stop`, and returns the extents of those records."""


class InMemoryLookup:
    """Arrays over all files, filled in file by file as records are requested. Thread-safe.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
    """

    def __init__(self, starts: NDArray[np.int64]) -> None:
        self._starts = starts
        n = int(starts[-1])
        self._file = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
        self._offset, self._length = np.empty(n, np.int64), np.empty(n, np.int64)
        self._stored: NDArray[np.uint32] | None = None
        self._there = np.zeros(len(starts) - 1, bool)
        self._complete = False
        self._problems: dict[int, Mapping[int, FormatError]] = {}
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def find(self, indices: NDArray[np.int64], part: Part) -> Extents:
        """Return the extents of these records, each in `[0, starts[-1])`; `part` reads those that are not in memory."""
        file = self._file[indices]
        if not self._complete and not self._there[file].all():
            missing = np.bincount(file[~self._there[file]])  # np.unique would import numpy.ma, for 50 ms
            self._load(np.flatnonzero(missing).tolist(), part)
        stored = None if self._stored is None else self._stored[indices]
        problems = self._problems_of(file, indices) if self._problems else {}
        return Extents(file, self._offset[indices], self._length[indices], stored=stored, problems=problems)

    def all_extents(self) -> Extents | None:
        """Return the extents of all records, without a copy; `None` before all files were loaded."""
        if not self._complete:
            return None
        problems = {
            int(self._starts[file]) + at: error for file, found in self._problems.items() for at, error in found.items()
        }
        return Extents(self._file, self._offset, self._length, stored=self._stored, problems=problems)

    def _load(self, files: list[int], part: Part) -> None:
        with self._lock:
            for file in files:
                if not self._there[file]:
                    self._take(file, part)
            self._complete = bool(self._there.all())

    def _take(self, file: int, part: Part) -> None:
        first, stop = int(self._starts[file]), int(self._starts[file + 1])
        index = _part_or_problem(part, file, 0, stop - first)
        self._offset[first:stop], self._length[first:stop] = index.offset, index.length
        if index.stored is not None:
            if self._stored is None:
                self._stored = np.zeros(len(self._offset), np.uint32)
            self._stored[first:stop] = index.stored
        if index.problems:
            self._problems[file] = index.problems
        self._there[file] = True

    def _problems_of(self, file: NDArray[np.int32], indices: NDArray[np.int64]) -> dict[int, FormatError]:
        found: dict[int, FormatError] = {}
        for number in set(np.unique(file).tolist()) & self._problems.keys():
            here, problems = np.flatnonzero(file == number), self._problems[number]
            local = (indices[here] - self._starts[number]).tolist()
            found |= {at: problems[i] for at, i in zip(here.tolist(), local, strict=True) if i in problems}
        return found


class PagedLookup:
    """Blocks of `ROWS` records, read when a record in them is requested; an LRU cache. Thread-safe.

    Args:
        starts: int64[n_files + 1], the number of each file's first record, and of all records.
        local: True if blocks are read from the local disk.
        held_bytes: The size of the cache.
    """

    def __init__(self, starts: NDArray[np.int64], *, local: bool, held_bytes: int = _HELD_BYTES) -> None:
        self._starts = starts
        self._local = local
        self._room = held_bytes
        self._held: dict[int, FileIndex] = {}  # the least recently used comes first
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def find(self, indices: NDArray[np.int64], part: Part) -> Extents:
        """Return the extents of these records, each in `[0, starts[-1])`; `part` reads those that are not in memory."""
        file = _file_of(self._starts, indices)
        local = indices - self._starts[file]
        keys, of = np.unique(file.astype(np.int64) << _MOST_BLOCKS | local // ROWS, return_inverse=True)
        row, of = local % ROWS, of.reshape(-1)
        if len(keys) <= _AT_ONCE:
            return _gather(file, row, of, self._blocks(keys.tolist(), part))
        parts = []
        order = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[order], np.arange(0, len(keys) + _AT_ONCE, _AT_ONCE)).tolist()
        for group, (begin, end) in enumerate(itertools.pairwise(edges)):
            here, first = order[begin:end], group * _AT_ONCE
            blocks = self._blocks(keys[first : first + _AT_ONCE].tolist(), part)
            parts.append((here, _gather(file[here], row[here], of[here] - first, blocks)))
        return _put_together(file, parts)

    def _blocks(self, keys: list[int], part: Part) -> list[FileIndex]:
        """Return these blocks; the missing ones are read together."""
        found: dict[int, FileIndex] = {}
        with self._lock:
            for key in keys:
                if key in self._held:
                    found[key] = self._held[key] = self._held.pop(key)
        missing = [key for key in keys if key not in found]
        if missing:
            read = dict(zip(missing, self._read_all(missing, part), strict=True))
            self._hold(read)
            found |= read
        return [found[key] for key in keys]

    def _read_all(self, keys: list[int], part: Part) -> list[FileIndex]:
        if self._local:  # threads that share Python make a batch from a warm disk four times slower
            return [self._read(key, part) for key in keys]
        return concurrent_map(lambda key: self._read(key, part), keys, local=False)

    def _read(self, key: int, part: Part) -> FileIndex:
        file, first = key >> _MOST_BLOCKS, (key & (1 << _MOST_BLOCKS) - 1) * ROWS
        stop = min(first + ROWS, int(self._starts[file + 1] - self._starts[file]))
        return _part_or_problem(part, file, first, stop)

    def _hold(self, blocks: Mapping[int, FileIndex]) -> None:
        with self._lock:
            for key, block in blocks.items():
                if key not in self._held:
                    self._held[key] = block
                    self._room -= block.nbytes + _BLOCK_EXTRA
            while self._room < 0 and len(self._held) > 1:
                left = self._held.pop(next(iter(self._held)))
                self._room += left.nbytes + _BLOCK_EXTRA


Lookup = InMemoryLookup | PagedLookup


def lookup(starts: NDArray[np.int64], *, local: bool) -> Lookup:
    """Return a lookup of records: in memory, if the arrays over all files are small enough."""
    return InMemoryLookup(starts) if fits_in_memory(int(starts[-1])) else PagedLookup(starts, local=local)


def fits_in_memory(n_extents: int) -> bool:
    """Return True if this many extents fit in memory: 24 bytes each, at most 128 MB."""
    return n_extents * _RECORD_BYTES <= _MAX_BYTES


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
    groups = {number: np.flatnonzero(file == number) for number in sorted(set(file.tolist()))}
    return RecordsByFile(file, indices - starts[file], groups)


def _file_of(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int32]:
    if len(starts) == 2:
        return np.zeros(len(indices), np.int32)
    return (np.searchsorted(starts, indices, side="right") - 1).astype(np.int32)


def _part_or_problem(part: Part, file: int, first: int, stop: int) -> FileIndex:
    """Return a part of an index; if the index is damaged, all its records have that problem, and no other file's."""
    try:
        return part(file, first, stop)
    except FormatError as error:
        problem, n = error, stop - first
        problems = LazyProblems(np.ones(n, bool), lambda _: problem)
        return FileIndex(np.zeros(n, np.int64), np.zeros(n, np.int64), None, problems)


def _gather(file: NDArray[np.int32], row: NDArray[np.int64], of: NDArray[np.int64], blocks: list[FileIndex]) -> Extents:
    """Return the records in these rows of blocks; `of` is the block of each."""
    if not blocks:
        none = np.zeros(0, np.int64)
        return Extents(file, none, none, stored=np.zeros(0, np.uint32))
    sizes = np.array([len(block) for block in blocks])
    at = (np.cumsum(sizes) - sizes)[of] + row
    offset = np.concatenate([block.offset for block in blocks])[at]
    length = np.concatenate([block.length for block in blocks])[at]
    problems: dict[int, FormatError] = {}
    for number, block in enumerate(blocks):
        if block.problems:
            here = np.flatnonzero(of == number)
            pairs = zip(here.tolist(), row[here].tolist(), strict=True)
            problems |= {position: block.problems[i] for position, i in pairs if i in block.problems}
    return Extents(file, offset, length, stored=_stored(blocks, at), problems=problems)


def _stored(blocks: list[FileIndex], positions: NDArray[np.int64]) -> NDArray[np.uint32] | None:
    if all(block.stored is None for block in blocks):
        return None
    columns = [np.zeros(len(block), np.uint32) if block.stored is None else block.stored for block in blocks]
    taken: NDArray[np.uint32] = np.concatenate(columns)[positions]
    return taken


def _put_together(file: NDArray[np.int32], parts: list[tuple[NDArray[np.int64], Extents]]) -> Extents:
    """Return the records of all parts; each part has the rows of its records."""
    n = len(file)
    offset, length = np.empty(n, np.int64), np.empty(n, np.int64)
    has_stored = any(found.stored is not None for _, found in parts)
    stored = np.zeros(n, np.uint32) if has_stored else None
    problems: dict[int, FormatError] = {}
    for here, found in parts:
        offset[here], length[here] = found.offset, found.length
        if stored is not None and found.stored is not None:
            stored[here] = found.stored
        problems |= {int(here[row]): error for row, error in found.problems.items()}
    return Extents(file, offset, length, stored=stored, problems=problems)
