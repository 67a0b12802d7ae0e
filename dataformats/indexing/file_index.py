"""The index of one file: the extents of its records, and the problems of those that cannot be read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError


class RecordIndex(Protocol):
    """The index of one file; it may read extents on demand. Thread-safe."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    @property
    def digest(self) -> str:
        """A digest of lengths and stored checksums; how the index was made does not matter."""
        ...

    def part(self, first: int, stop: int) -> FileIndex:
        """Return the extents of the records `[first, stop)`.

        Raises:
            FormatError: The index itself is damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Where the rows of an index lie, and how to give them to the kernels.

    Attributes:
        n_bytes: Their bytes.
        path: The file with the rows; `None` if they are in memory, or not on the local disk.
        base: Where they begin in that file.
        read: Returns them.
        hold: Gives them to the kernels: takes the result of `hold_index`, the number of the file, the rows or a path,
            if it is a path, and where they begin. Returns False if they are damaged.
    """

    n_bytes: int
    path: str | None
    base: int
    read: Callable[[], bytes]
    hold: Callable[[Any, int, bytes, bool, int], bool]


class PackedIndex(RecordIndex, Protocol):
    """An index whose rows the kernels can look up."""

    def packed(self) -> PackedRows:
        """Return where its rows lie.

        Raises:
            FormatError: The index itself is damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Extents of records of one file, in memory.

    Attributes:
        offset: int64[n], the first byte of each record's blob.
        length: int64[n], the bytes of each blob.
        stored: uint32[n], the stored checksum of each; `None` if the format has no checksums.
        problems: Records that cannot be read, row to error. If the rest of a file cannot be read, it is one more
            record, of length 0, with its problem.
    """

    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    stored: NDArray[np.uint32] | None = None
    problems: Mapping[int, FormatError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def digest(self) -> str:
        """A digest of lengths and stored checksums."""
        state = hashlib.blake2b(len(self).to_bytes(8, "little"), digest_size=16)
        state.update(self.length.astype("<i8").tobytes())
        if self.stored is not None:
            state.update(self.stored.astype("<u4").tobytes())
        return state.hexdigest()

    def part(self, first: int, stop: int) -> FileIndex:
        """Return the records `[first, stop)`; arrays are views."""
        here = slice(first, stop)
        stored = None if self.stored is None else self.stored[here]
        return FileIndex(self.offset[here], self.length[here], stored, _part(self.problems, first, stop))


class LazyProblems(Mapping[int, FormatError]):
    """The problems of records, row to error; each error is created on access.

    A table with millions of wrong entries would otherwise be as many exceptions.

    Args:
        wrong: bool[n], which records are wrong.
        make: Returns the error of a wrong record.

    Example:
        >>> import numpy as np
        >>> from dataformats import FormatError
        >>> from dataformats.interfaces import LazyProblems
        >>> problems = LazyProblems(np.array([False, True]), lambda index: FormatError(f"record {index} is cut"))
        >>> len(problems), str(problems[1])
        (1, 'record 1 is cut')
    """

    def __init__(self, wrong: NDArray[np.bool_], make: Callable[[int], FormatError]) -> None:
        self._wrong = wrong
        self._make = make
        self._n = int(np.count_nonzero(wrong))

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._wrong).tolist())

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and 0 <= row < len(self._wrong) and bool(self._wrong[row])

    def __getitem__(self, row: int) -> FormatError:
        if row not in self:
            raise KeyError(row)
        return self._make(row)

    def part(self, first: int, stop: int) -> LazyProblems:
        """Return the problems of the records `[first, stop)`, numbered from `first`."""
        return LazyProblems(self._wrong[first:stop], lambda row: self._make(first + row))


def _part(problems: Mapping[int, FormatError], first: int, stop: int) -> Mapping[int, FormatError]:
    if isinstance(problems, LazyProblems):
        return problems.part(first, stop)
    return {row - first: error for row, error in problems.items() if first <= row < stop}
