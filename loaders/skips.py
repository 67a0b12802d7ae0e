"""Skips: the positions that a run leaves out."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import cached_property

MAX_POSITION = 2**62
"""Positions are below this, so that no sum of two overflows int64."""

_FIRST_NUMBERS = np.arange(500)


@dataclass(frozen=True)
class Skips:
    """Ranges of positions that are left out; `Skips()` is empty.

    Attributes:
        ranges: `(first, last)`, `last` excluded: ascending, none empty, with at least one position between two of
            them. `Skips.of` normalizes any ranges.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[Any, Any]]) -> Skips:
        """Return skips of these ranges, which may overlap and be in any order.

        Raises:
            ValueError: A range ends before it begins, or is outside `[0, 2**62)`.
            TypeError: Its ends are not integers.
        """
        merged: list[tuple[int, int]] = []
        for first, last in sorted(_range(*ends) for ends in ranges):
            if first == last:
                continue
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    def add(self, first: int, last: int) -> Skips:
        """Return these skips and `[first, last)`; errors as in `of`."""
        return Skips.of((*self.ranges, (first, last)))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def count(self, first: int, stop: int) -> int:
        """Return the number of positions of `[first, stop)` that are left out, in O(log(ranges)) time."""
        return self._before(stop) - self._before(first) if self.ranges and stop > first else 0

    def positions(self, first: int, stop: int, n: int) -> NDArray[np.int64]:
        """Return the first `n` positions of `[first, stop)` that are not left out, ascending: int64[<= n].

        Takes O(n log(ranges)) time, however long the ranges are.
        """
        n = max(0, min(n, stop - first - self.count(first, stop)))
        # np.arange releases the GIL even for short arrays, which may cost a thread switch; a short sum does not.
        wanted = _FIRST_NUMBERS[:n] if n <= len(_FIRST_NUMBERS) else np.arange(n)
        return wanted + first if not self.ranges or not n else self._numbered(first, wanted)

    def nth(self, first: int, n: int) -> int:
        """Return the `n`-th position, from 0, that is not left out, counted from `first` on; it must exist."""
        return first + n if not self.ranges else int(self._numbered(first, np.array([n]))[0])

    def _before(self, position: int) -> int:
        """Return the number of positions before this one that are left out."""
        firsts, lasts, skipped, _ = self._tables
        n = int(firsts.searchsorted(position))
        return int(skipped[n]) - max(0, int(lasts[n - 1]) - position) if n else 0

    def _numbered(self, first: int, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions with these numbers among the positions from `first` on that are not left out."""
        _, _, skipped, remaining = self._tables
        # Position number k, counted from 0, comes after all ranges with at most k remaining positions before them.
        numbers = wanted + (first - self._before(first))
        places: NDArray[np.int64] = numbers + skipped[remaining.searchsorted(numbers, side="right")]
        return places

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int64], ...]:
        """First and last position of each range; and how many positions before it are left out, and how many remain."""
        firsts, lasts = np.array(self.ranges, np.int64).reshape(-1, 2).T.copy()
        skipped = np.concatenate([[0], np.cumsum(lasts - firsts)])
        return firsts, lasts, skipped, firsts - skipped[:-1]


def _range(first: Any, last: Any) -> tuple[int, int]:
    try:
        first, last = operator.index(first), operator.index(last)
    except TypeError:
        raise TypeError(f"skip: expected two integers, found {first!r} and {last!r}") from None
    if not 0 <= first <= last <= MAX_POSITION:
        raise ValueError(
            f"skip: expected 0 <= start <= stop <= 2**62, found start={first}, stop={last}. "
            "Positions count from the start of the training run, and stop is excluded"
        )
    return first, last
