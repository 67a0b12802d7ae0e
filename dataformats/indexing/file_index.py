"""Where the records of one file lie: extents that are held, and what is wrong with some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError

__all__ = ["FileIndex", "LazyProblems", "RecordIndex"]


class RecordIndex(Protocol):
    """Knows where the records of one file lie, and need not hold it. Thread-safe."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    @property
    def digest(self) -> str:
        """What tells these lengths and stored checksums from others, however the index came to be."""
        ...

    def part(self, first: int, stop: int) -> FileIndex:
        """Return where the records `[first, stop)` lie.

        Raises:
            FormatError: The index itself is damaged, so that nobody knows.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Where records of one file lie, held in memory.

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

    @property
    def digest(self) -> str:
        """Of lengths and stored checksums."""
        state = hashlib.blake2b(len(self).to_bytes(8, "little"), digest_size=16)
        state.update(self.length.astype("<i8").tobytes())
        if self.stored is not None:
            state.update(self.stored.astype("<u4").tobytes())
        return state.hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.offset.nbytes + self.length.nbytes + (0 if self.stored is None else self.stored.nbytes)

    def part(self, first: int, stop: int) -> FileIndex:
        """Return the records `[first, stop)`; arrays are views."""
        here = slice(first, stop)
        stored = None if self.stored is None else self.stored[here]
        return FileIndex(self.offset[here], self.length[here], stored, _part(self.problems, first, stop))


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

    def part(self, first: int, stop: int) -> LazyProblems:
        """Return those of the records `[first, stop)`, counted from `first`."""
        return LazyProblems(self._wrong[first:stop], lambda position: self._make(first + position))


def _part(problems: Mapping[int, FormatError], first: int, stop: int) -> Mapping[int, FormatError]:
    if isinstance(problems, LazyProblems):
        return problems.part(first, stop)
    return {position - first: error for position, error in problems.items() if first <= position < stop}
