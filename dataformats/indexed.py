"""Readers of formats that store one blob a record: an index a file, and how record numbers find their extents."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import Check, Extents, Located, Reader
from dataformats.spec import VALUE
from dataformats.storage.files import StoredFile
from dataformats.storage.forks import after_fork

__all__ = ["FileIndex", "IndexedReader", "LazyProblems"]


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Where the records of one file lie.

    Attributes:
        offset: int64[n], first byte of each record's blob.
        length: int64[n], its bytes.
        stored: uint32[n], its checksum as stored; `None` where the format has none.
        problems: Records that cannot be read, position to error. A rest of the file that cannot be read is one more
            record, of length 0, with its problem.
    """

    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    stored: NDArray[np.uint32] | None = None
    problems: Mapping[int, FormatError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offset)


class LazyProblems(Mapping[int, FormatError]):
    """What is wrong with records, position to error; errors are made when asked for.

    A table of many million wrong entries would otherwise be as many exceptions.

    Args:
        wrong: bool[n], which records are wrong.
        make: Returns the error of one of these.
    """

    def __init__(self, wrong: NDArray[np.bool_], make: Callable[[int], FormatError]) -> None:
        self._wrong = wrong
        self._make = make
        self._n = int(np.count_nonzero(wrong))

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._wrong).tolist())

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and 0 <= position < len(self._wrong) and bool(self._wrong[position])

    def __getitem__(self, position: int) -> FormatError:
        if position not in self:
            raise KeyError(position)
        return self._make(position)


class IndexedReader(Reader):
    """A reader whose records are single blobs found through an index of each file.

    Attributes:
        head: Bytes of framing before each blob.
        tail: Bytes of framing behind it.
    """

    head: int = 0
    tail: int = 0

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files = list(files)
        self._indexes: list[FileIndex] | None = None
        self._starts: NDArray[np.int64] | None = None
        self._lock = threading.Lock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def load_index(self, file: int) -> FileIndex:
        """Return the index of one file; called once a file, from several threads."""

    @property
    def check(self) -> Check | None:
        """What verifies the blobs; `None` where nothing can or shall."""
        return None

    @property
    def indexes(self) -> list[FileIndex]:
        """The index of each file, made at the first call: in parallel, each process beginning at another file."""
        with self._lock:
            if self._indexes is None:
                n = len(self.files)
                first = os.getpid() % max(1, n)
                order = [*range(first, n), *range(first)]
                with ThreadPoolExecutor(max(1, min(n, os.cpu_count() or 1))) as threads:
                    made = dict(zip(order, threads.map(self.load_index, order), strict=True))
                self._indexes = [made[file] for file in range(n)]
            return self._indexes

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array([len(index) for index in self.indexes], np.int64)

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64[n_files + 1], the number of each file's first record, and of all records."""
        if self._starts is None:
            self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        return self._starts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        file = (np.searchsorted(self.starts, indices, side="right") - 1).astype(np.int32)
        local = indices - self.starts[file]
        offset, length = np.zeros(len(indices), np.int64), np.zeros(len(indices), np.int64)
        has_stored = all(index.stored is not None for index in self.indexes)
        stored = np.zeros(len(indices), np.uint32) if has_stored else None
        problems: dict[int, FormatError] = {}
        for number in np.unique(file).tolist():
            index, here = self.indexes[number], np.flatnonzero(file == number)
            offset[here], length[here] = index.offset[local[here]], index.length[local[here]]
            if stored is not None and index.stored is not None:
                stored[here] = index.stored[local[here]]
            if index.problems:
                problems |= {at: index.problems[i] for at, i in _pairs(here, local[here]) if i in index.problems}
        return {VALUE: Located(Extents(file, offset, length, self.head, self.tail, stored, self.check, problems))}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index in self.indexes:
            update(len(index).to_bytes(8, "little"))
            update(index.length.astype("<i8").tobytes())
            if index.stored is not None:
                update(index.stored.astype("<u4").tobytes())


def _pairs(here: NDArray[np.int64], local: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(here.tolist(), local.tolist(), strict=True))
