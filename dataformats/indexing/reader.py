"""Readers of formats that store one blob a record: an index a file, made once and looked up by record numbers."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import after_fork
from dataformats.indexing.file_index import FileIndex, LazyProblems, RecordIndex
from dataformats.indexing.lookup import InMemoryLookup, Lookup, lookup
from dataformats.interfaces import Check, Extents, Located, Reader
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import VALUE
from dataformats.storage.threads import concurrent_map

__all__ = ["FileIndex", "IndexedReader", "LazyProblems", "RecordIndex"]

Made = TypeVar("Made")


class IndexedReader(Reader):
    """A reader whose records are single blobs found through an index of each file.

    Args:
        files: The files, in reading order.
        indexes_are_local: True where indexes lie on the local disk though the files may not.

    Attributes:
        head: Bytes of framing before each blob.
        tail: Bytes of framing behind it.
    """

    head: int = 0
    tail: int = 0

    def __init__(self, files: Sequence[StoredFile], *, indexes_are_local: bool = False) -> None:
        self.files: list[StoredFile] = list(files)
        self._is_local = indexes_are_local or all(file.local is not None for file in self.files)
        self._indexes: list[RecordIndex] | None = None
        self._starts: NDArray[np.int64] | None = None
        self._counts: NDArray[np.int64] | None = None
        self._lookup: Lookup | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def load_index(self, file: int) -> RecordIndex:
        """Return the index of one file, made if need be; called once a file, from several threads."""

    def quick_index(self, file: int) -> RecordIndex | None:
        """Return the index of one file where that takes a read or two; `None`: `load_index` has to make it."""
        return None

    @property
    def check(self) -> Check | None:
        """What verifies the blobs; `None` where nothing can or shall."""
        return None

    @property
    def indexes(self) -> list[RecordIndex]:
        """The index of each file: those that are there at once, the others in parallel.

        Each process begins at another file and adopts what appears: many may build at once.
        """
        with self._lock:
            if self._indexes is None:
                self._indexes = self._load_all()
            return self._indexes

    def _load_all(self) -> list[RecordIndex]:
        found = dict(enumerate(self.each_file(self.quick_index)))
        missing = [file for file, index in found.items() if index is None]
        first = os.getpid() % max(1, len(missing))
        order = missing[first:] + missing[:first]
        with ThreadPoolExecutor(min(max(1, len(order)), os.cpu_count() or 1)) as threads:
            made = dict(zip(order, threads.map(self.load_index, order), strict=True))
        return [index if index is not None else made[file] for file, index in found.items()]

    def each_file(self, quick: Callable[[int], Made]) -> list[Made]:
        """Return what a function that reads little gives for each file."""
        return concurrent_map(quick, range(len(self.files)), local=self._is_local)

    @property
    def counts(self) -> NDArray[np.int64]:
        if self._counts is None:
            self._counts = np.diff(self.starts)
        return self._counts

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64[n_files + 1], the number of each file's first record, and of all records."""
        if self._starts is None:
            counts = np.fromiter(map(len, self.indexes), np.int64, len(self.files))
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return self._starts

    def part(self, file: int, first: int, stop: int) -> FileIndex:
        """Return where the records `[first, stop)` of a file lie.

        Raises:
            FormatError: The index itself is damaged, so that nobody knows.
        """
        return self.indexes[file].part(first, stop)

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        known = self._lookup or self._make_lookup()
        return {VALUE: Located(self._extents(known.find(indices, self.part)))}

    def all_extents(self, field: str) -> Extents | None:
        found = self._lookup.all_extents() if isinstance(self._lookup, InMemoryLookup) else None
        return None if found is None else self._extents(found)

    def _extents(self, found: Extents) -> Extents:
        where = (found.file, found.offset, found.length)
        return Extents(*where, self.head, self.tail, found.stored, self.check, found.problems)

    def _make_lookup(self) -> Lookup:
        starts = self.starts
        with self._lock:
            if self._lookup is None:
                self._lookup = lookup(starts, local=self._is_local)
            return self._lookup

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index in self.indexes:
            update(index.digest.encode())
