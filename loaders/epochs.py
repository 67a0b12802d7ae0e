"""Epochs: where each epoch of a run begins and ends, if its data grow during the run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import cached_property
from dataformats.integer_arguments import as_int
from dataformats.loaders.skips import MAX_POSITION

_Numbers = NDArray[np.int64]

Grown = Literal["now", "next_epoch"]
"""When appended records come: in the rest of this epoch, or from the next epoch on."""

Part = tuple[int, int, int]
"""Records `[begin, end)` that come from place `offset` of an epoch on: (offset, begin, end)."""

Run = tuple[int, int, int]
"""Epochs of one length: (first position, number of the first epoch, length)."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of a run. An epoch in which records were appended has all of them, old and new.

    Attributes:
        lengths: (position, records of an epoch from there on), both ascending, the first position 0. A position inside
            an epoch: the appended records come in the rest of it.

    Raises:
        ValueError: They are not ascending, or not in `[0, 2**62)`.

    Example:
        >>> epochs = Epochs(((0, 10), (25, 14)))
        >>> [epochs.at(position) for position in (9, 25, 34)]
        [(0, 0, 10), (2, 20, 34), (3, 34, 48)]
    """

    lengths: tuple[tuple[int, int], ...]

    _recent = (0, 0, 0)  # the last result of `at`, which is called for every batch; no field

    def __post_init__(self) -> None:
        ascending = all(one[0] < other[0] and 0 < one[1] < other[1] for one, other in pairwise(self.lengths))
        if not self.lengths or self.lengths[0][0] or not ascending or self.lengths[0][1] < 0:
            raise ValueError(f"expected lengths of epochs by ascending position, the first at 0, found {self.lengths}")
        if max(self.lengths[-1]) >= MAX_POSITION:
            raise ValueError(f"expected positions and lengths below 2**62, found {self.lengths}")

    @classmethod
    def of(cls, n: int) -> Epochs:
        """Return epochs of `n` records each."""
        return cls(((0, n),))

    @classmethod
    def from_json(cls, lengths: Iterable[Iterable[object]]) -> Epochs:
        """Return the epochs of a list of pairs; errors as in the constructor, or `TypeError`."""
        pairs = [tuple(map(as_int, pair)) for pair in lengths]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("expected pairs of position and length")
        return cls(tuple((pair[0], pair[1]) for pair in pairs))

    @property
    def length(self) -> int:
        """The records of the last epochs."""
        return self.lengths[-1][1]

    def grow(self, position: int, length: int, when: Grown) -> Epochs:
        """Return these epochs with more records, for a run at a position; the same if there are as many as before.

        Records that were to come later than that come with the new ones.
        """
        if length == self.length:
            return self
        if when == "next_epoch" and position:
            _, first, stop = self.at(position)
            position = stop if position > first else first
        return Epochs((*(one for one in self.lengths if one[0] < position), (position, length)))

    def at(self, position: int) -> tuple[int, int, int]:
        """Return the epoch of a position: its number, its first position, and the first one behind it."""
        recent = self._recent
        if recent[1] <= position < recent[2]:
            return recent
        first, number, length = self.runs[bisect_right(self.runs, position, key=itemgetter(0)) - 1]
        passed = (position - first) // length
        first += passed * length
        found = number + passed, first, first + length
        object.__setattr__(self, "_recent", found)
        return found

    def first(self, number: int) -> int:
        """Return the first position of an epoch."""
        first, begin, length = self.runs[bisect_right(self.runs, number, key=itemgetter(1)) - 1]
        return first + (number - begin) * length

    def places(self, positions: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return the number of the epoch of each position, and the place in it: int64[n] each."""
        if len(self.runs) == 1:
            return np.divmod(positions, self.length)
        first, number, length = np.array(self.runs, np.int64).T
        run = np.searchsorted(first, positions, side="right") - 1
        passed, place = np.divmod(positions - first[run], length[run])
        return number[run] + passed, place

    def parts(self, number: int) -> list[Part]:
        """Return the records of an epoch: those at its beginning, and those that were appended during it."""
        begin = self.first(number)
        _, _, stop = self.at(begin)
        known = next(length for position, length in reversed(self.lengths) if position <= begin)
        parts = [(0, 0, known)]
        for position, length in self.lengths:
            if begin < position < stop:
                parts.append((position - begin, parts[-1][2], length))
        return parts

    def between(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first, stop, length) for runs of epochs of one length among the epochs `[low, high)`."""
        stops = [number for _, number, _ in self.runs[1:]]
        for (_, number, length), stop in zip(self.runs, [*stops, high], strict=True):
            if max(low, number) < min(high, stop):
                yield max(low, number), min(high, stop), length

    @cached_property
    def runs(self) -> list[Run]:
        """Epochs of one length, by ascending position."""
        runs = [(0, 0, self.lengths[0][1])]
        for position, length in self.lengths[1:]:
            first, number, before = runs[-1]
            passed = (position - first) // before
            if not passed:
                runs.pop()
            runs.append((first + passed * before, number + passed, length))
        return runs
