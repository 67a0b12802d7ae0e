"""Base class of readers whose records are one blob: each file has an index, which is built once and looked up."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.file_index import FileIndex, RecordIndex
from dataformats.indexing.lookup import RecordLookup
from dataformats.interfaces import Check, Extents, KernelCheck, Located, Reader
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck, hold_index, reads_batches
from dataformats.spec import VALUE
from dataformats.storage.threads import concurrent_map, threads_for

T = TypeVar("T")


class IndexedReader(Reader):
    """A reader whose records are single blobs, located by an index of each file.

    Args:
        files: The files, in reading order.
        counts: int64[n_files], the records of each file, if they are known: each index is then loaded at its first use.

    Attributes:
        head: Bytes of framing before each blob.
        tail: Bytes of framing behind it.
        is_packed: True if the kernels can look up its indexes, which then are of `PackedIndex`.
        has_stored: True if its packed indexes have checksums.
    """

    head: int = 0
    tail: int = 0
    is_packed: bool = False
    has_stored: bool = False

    def __init__(self, files: Sequence[StoredFile], *, counts: NDArray[np.int64] | None = None) -> None:
        self.files: Sequence[StoredFile] = list(files)
        self._is_local = all(file.local is not None for file in self.files)
        self._indexes: list[RecordIndex] | _IndexesOnDemand | None = None
        self._counts = counts
        self._starts: NDArray[np.int64] | None = None
        self._lookup: RecordLookup | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def load_index(self, file: int) -> RecordIndex:
        """Return the index of one file, and build it if necessary; called once per file, from several threads."""

    def quick_index(self, file: int) -> RecordIndex | None:
        """Return the index of one file if that takes a read or two; `None` if `load_index` has to build it."""
        return None

    @property
    def check(self) -> Check | None:
        """Verifies the blobs; `None` if they have no checksums or the caller turned verification off."""
        return None

    @property
    def indexes(self) -> list[RecordIndex] | _IndexesOnDemand:
        """The index of each file: existing ones are loaded, the others are built in parallel; see also `counts`.

        Each process begins at another file and adopts indexes that appear: many processes may build at once.
        """
        with self._lock:
            if self._indexes is None:
                self._indexes = self._load_all() if self._counts is None else _IndexesOnDemand(self._load_known)
            return self._indexes

    def _load_known(self, file: int) -> RecordIndex:
        index, n_records = self.load_index(file), int(self.counts[file])
        if len(index) != n_records:
            raise FormatError(
                "the file changed since its source was pickled",
                path=self.files[file].name,
                expected=f"{n_records} records",
                found=f"{len(index)}",
                remedy="Open the dataset again",
            )
        return index

    def _load_all(self) -> list[RecordIndex]:
        found = dict(enumerate(self.each_file(self.quick_index)))
        missing = [file for file, index in found.items() if index is None]
        first = os.getpid() % max(1, len(missing))
        order = missing[first:] + missing[:first]
        with threads_for(len(order), local=all(file.local is not None for file in self.files)) as threads:
            made = dict(zip(order, threads.map(self.load_index, order), strict=True))
        return [index if index is not None else made[file] for file, index in found.items()]

    def each_file(self, quick: Callable[[int], T]) -> list[T]:
        """Call a function that reads little for each file, and return its results."""
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
            counts = self._counts
            if counts is None:
                counts = np.array([len(self.indexes[file]) for file in range(len(self.files))], np.int64)
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return self._starts

    def part(self, file: int, first: int, stop: int) -> FileIndex:
        """Return the extents of the records `[first, stop)` of a file.

        Raises:
            FormatError: The index itself is damaged.
        """
        return self.indexes[file].part(first, stop)

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        found = self.lookup.find(indices, self.part)
        where = (found.file, found.offset, found.length)
        extents = Extents(*where, self.head, self.tail, found.stored, self.check, found.problems)
        return {VALUE: Located(extents)}

    def forget_extents(self) -> None:
        """Look extents up anew: an index was replaced by another with as many records."""
        self._lookup = None

    @property
    def lookup(self) -> RecordLookup:
        """Finds the extents of records."""
        if self._lookup is None:
            starts, indexes, handle = self.starts, self.indexes, None
            check = self.check
            if self.is_packed and reads_batches() and isinstance(check, KernelCheck | None):
                kernel = FrameCheck.NOTHING if check is None else check.kernel
                handle = hold_index(starts, (self.head, self.tail), kernel, has_stored=self.has_stored)
            with self._lock:
                if self._lookup is None:
                    self._lookup = RecordLookup(starts, indexes, handle, local=self._is_local)
        return self._lookup

    def digest(self, update: Callable[[bytes], None]) -> None:
        for file in range(len(self.files)):
            update(self.indexes[file].digest.encode())


class _IndexesOnDemand(dict[int, RecordIndex]):
    """File to index, which is loaded when it is requested first."""

    def __init__(self, load: Callable[[int], RecordIndex]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, file: int) -> RecordIndex:
        self[file] = self._load(file)
        return self[file]
