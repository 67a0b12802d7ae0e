"""Base class of readers: a dataset is a list of files, each with an index, which is built once and looked up."""

from __future__ import annotations

import logging
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.file_index import ArrayIndex, FieldIndex, FileIndex
from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.lookup import RecordLookup, file_of
from dataformats.interfaces import Check, Extents, KernelCheck, Located, Reader, ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck, hold_index, reads_batches
from dataformats.spec import VALUE
from dataformats.storage.threads import concurrent_map, threads_for

T = TypeVar("T")

_LOG = logging.getLogger("dataformats")
_ROW = "record"  # a column of zeros, which takes no space: a file may have records and no fields


class FilesReader(Reader):
    """A reader of files that have an index each: implement `index_of`.

    By default a record is one blob, the field `VALUE` of the indexes. A `FieldsReader` is for records with fields.

    An index that takes a pass over its file is kept in the index cache, if `kind` is given, unless it has problems. In
    memory, arrays take up to 16 bytes for each record and field, half of it in files of less than 2 GiB.

    Args:
        files: The files, in reading order.
        options: The options of `open`; needed to keep indexes.
        kind: The kind of kept index, such as `"mine-1"`; an index of another kind is built anew. `None` keeps no index,
            because the files have a table.
        counts: int64[n_files], the records of each file, if they are known: each index is then loaded at its first use.

    Attributes:
        head: Bytes before each blob that are read with it, for `check`.
        tail: Bytes behind each blob that are read with it, for `check`.
        is_packed: True if the kernels can look up its indexes, which then are of `PackedIndex`.
        has_stored: True if its packed indexes have checksums.
    """

    head: int = 0
    tail: int = 0
    is_packed: bool = False
    has_stored: bool = False

    def __init__(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions | None = None,
        kind: str | None = None,
        *,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self.files: Sequence[StoredFile] = list(files)
        self.options: ReaderOptions = options or ReaderOptions()
        self._kind = kind
        self._cache = IndexCache(self.options.index)
        self._is_local = all(file.local is not None for file in self.files)
        self._indexes: list[FileIndex] | _IndexesOnDemand | None = None
        self._counts = counts
        self._starts: NDArray[np.int64] | None = None
        self._lookup: RecordLookup | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def index_of(self, file: StoredFile) -> FileIndex:
        """Return the index of one file, and build it if necessary; called once per file, from several threads.

        If the rest of the file cannot be read, it is one more record, and every field of it has the problem.

        Raises:
            FormatError: The file as a whole cannot be read.
        """

    def kept_index(self, file: StoredFile) -> FileIndex | None:
        """Return the index of one file if that takes a read or two; `None` if `index_of` has to build it."""
        kept = self._cache.load(file.stored, self._kind) if self._kind is not None else None
        if kept is not None and kept.exact:
            try:
                columns = kept.rows(0, len(kept)).columns
                fields = {str(name): _extents(columns, at) for at, name in enumerate(kept.metadata["fields"])}
                return FileIndex(len(kept), fields, dict(kept.metadata["metadata"]))
            except (BrokenBlockError, LookupError, TypeError, ValueError) as error:
                _LOG.warning("ignored the index of %s: %s", file.name, error)
        return None

    def can_keep(self, file_index: FileIndex) -> bool:
        """True if the index cache may keep an index: it has no problems."""
        return not any(extents.problems for extents in file_index.arrays.values())

    @property
    def check(self) -> Check | None:
        """Verifies the blobs; `None` if they have no checksums or the caller turned verification off."""
        return None

    @property
    def indexes(self) -> list[FileIndex] | _IndexesOnDemand:
        """The index of each file: existing ones are loaded, the others are built in parallel; see also `counts`.

        Each process begins at another file: many processes may build at once.
        """
        with self._lock:
            if self._indexes is None:
                self._indexes = self._load_all() if self._counts is None else _IndexesOnDemand(self._load_known)
            return self._indexes

    def _load_known(self, file: int) -> FileIndex:
        index, n_records = self._build(self.files[file]), int(self.counts[file])
        if len(index) != n_records:
            raise FormatError(
                "the file changed since its source was pickled",
                path=self.files[file].name,
                expected=f"{n_records} records",
                found=f"{len(index)}",
                remedy="Open the dataset again",
            )
        return index

    def _load_all(self) -> list[FileIndex]:
        found = dict(enumerate(self.each_file(self.kept_index)))
        missing = [file for file, index in found.items() if index is None]
        first = os.getpid() % max(1, len(missing))
        order = missing[first:] + missing[:first]
        with threads_for(len(order), local=self._is_local) as threads:
            made = dict(zip(order, threads.map(lambda file: self._build(self.files[file]), order), strict=True))
        return [index if index is not None else made[file] for file, index in found.items()]

    def _build(self, file: StoredFile) -> FileIndex:
        index = self.index_of(file)
        if self._kind is not None and self.can_keep(index):
            metadata = {"fields": list(index.fields), "metadata": dict(index.metadata)}
            self._cache.save(file.stored, self._kind, _columns(index), metadata)
        return index

    def each_file(self, quick: Callable[[StoredFile], T]) -> list[T]:
        """Call a function that reads little for each file, and return its results."""
        return concurrent_map(quick, self.files, local=self._is_local)

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

    def part(self, file: int, first: int, stop: int) -> ArrayIndex:
        """Return the extents of the blobs of the records `[first, stop)` of a file.

        Raises:
            FormatError: The index itself is damaged.
        """
        return self._blobs_of(file).part(first, stop)

    def _blobs_of(self, file: int) -> FieldIndex:
        return self.indexes[file].fields[VALUE]

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        if isinstance(indexes := self.indexes, _IndexesOnDemand):
            missing = {*file_of(self.starts, indices).tolist()} - indexes.keys()
            concurrent_map(indexes.__getitem__, sorted(missing), local=self._is_local)
        found = self.lookup.find(indices, self.part)
        where = (found.file, found.offset, found.length)
        return {VALUE: Located(Extents(*where, self.head, self.tail, found.stored, self.check, found.problems))}

    def forget_extents(self) -> None:
        """Look extents up anew: an index was replaced by another with as many records."""
        self._lookup = None

    @property
    def lookup(self) -> RecordLookup:
        """Finds the extents of blobs."""
        if self._lookup is None:
            starts, indexes, handle = self.starts, self.indexes, None
            check = self.check

            def blobs_of(file: int) -> FieldIndex:  # a method would be a cycle, which keeps files open
                return indexes[file].fields[VALUE]

            if self.is_packed and reads_batches() and isinstance(check, KernelCheck | None):
                kernel = FrameCheck.NOTHING if check is None else check.kernel
                handle = hold_index(starts, (self.head, self.tail), kernel, has_stored=self.has_stored)
            with self._lock:
                if self._lookup is None:
                    self._lookup = RecordLookup(starts, blobs_of, handle, local=self._is_local)
        return self._lookup

    def digest(self, update: Callable[[bytes], None]) -> None:
        for file in range(len(self.files)):
            update(self._blobs_of(file).digest.encode())


class _IndexesOnDemand(dict[int, FileIndex]):
    """File to index, which is loaded when it is requested first."""

    def __init__(self, load: Callable[[int], FileIndex]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, file: int) -> FileIndex:
        self[file] = self._load(file)
        return self[file]


def _columns(index: FileIndex) -> dict[str, NDArray[np.int64]]:
    """Return the columns of an index to keep: integers from 0 on, so lengths are one more."""
    columns = {_ROW: np.zeros(index.n_records, np.int64)}
    for at, extents in enumerate(index.arrays.values()):
        columns |= {f"{at}.offset": extents.offset, f"{at}.length": extents.length.astype(np.int64) + 1}
        if extents.stored is not None:
            columns[f"{at}.stored"] = extents.stored.astype(np.int64)
    return columns


def _extents(columns: Mapping[str, NDArray[Any]], number: int) -> ArrayIndex:
    stored = columns.get(f"{number}.stored")
    offset, length = columns[f"{number}.offset"], columns[f"{number}.length"].astype(np.int64) - 1
    return ArrayIndex(offset, length, None if stored is None else stored.astype(np.uint32))
