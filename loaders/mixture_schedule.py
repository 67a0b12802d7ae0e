"""Schedule: the component of a mixture that each position takes, and how many positions it took before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import cached_property
from dataformats.integer_arguments import as_int
from dataformats.loaders.shuffle import group_rows
from dataformats.loaders.skips import MAX_POSITION

History = tuple[tuple[int, tuple[int, ...]], ...]
"""Weights over time: (first position, weights), the first entry at position 0."""

Until = str | int
"""When an epoch of a mixture ends: `"first"`, `"all"`, or after that many positions."""

_Numbers = NDArray[np.int64]
_MAX_WEIGHT_SUM = 2**31


class _WeightedRotation:
    """Turns by constant weights.

    If two groups with weights L and R share `count` turns, the first group has `(count * L + (L + R) // 2) // (L + R)`:
    its share, rounded. This never decreases, grows by 0 or 1 per turn, and is exact after each L + R turns. Groups are
    halved, in a binary tree with the components as leaves, until one component is left. So a component deviates from
    its share by at most half a turn per level, and a turn is found in as many steps as the tree has levels.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._levels = (len(weights) - 1).bit_length()
        self._leaves = 1 << self._levels
        sums = [0] * self._leaves + [*weights] + [0] * (self._leaves - len(weights))
        for node in range(self._leaves - 1, 0, -1):
            sums[node] = sums[2 * node] + sums[2 * node + 1]
        self._sums = sums
        self._array = np.array(sums, np.int64)

    def turns(self, positions: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return the component of each position, and how many turns it had before: int64[n] each."""
        # The counts of whole periods are known. Only the rest is multiplied, so products stay below the squared total.
        periods, count = np.divmod(positions, self._sums[1])
        node = np.ones_like(positions)
        for _ in range(self._levels):
            whole, first = self._array[node], self._array[2 * node]
            before = (count * first + whole // 2) // whole
            is_first = (count * first + first + whole // 2) // whole > before
            count = np.where(is_first, before, count - before)
            node = 2 * node + ~is_first
        return node - self._leaves, periods * self._array[node] + count

    def count(self, component: int, position: int) -> int:
        """Return how many of the first `position` turns a component has."""
        leaf = self._leaves + component
        if not self._sums[leaf]:
            return 0
        count = position
        for level in range(self._levels, 0, -1):
            parent = leaf >> level
            whole, first = self._sums[parent], self._sums[2 * parent]
            before = (count * first + whole // 2) // whole
            count = count - before if leaf >> level - 1 & 1 else before
        return count

    def end_of(self, component: int, n: int) -> int:
        """Return after how many turns of all components this one, of positive weight, has had `n`; at most 2**62."""
        weight = self._sums[self._leaves + component]
        most = min(-(-n // weight) * self._sums[1], MAX_POSITION)
        return bisect_left(range(most), n, key=lambda position: self.count(component, position))


@dataclass(frozen=True)
class Schedule:
    """Turns by weights that may change at a position; the counts of the components continue.

    Attributes:
        history: The weights over time.
    """

    history: History

    @cached_property
    def _rotations(self) -> list[_WeightedRotation]:
        return [_WeightedRotation(weights) for _, weights in self.history]

    @cached_property
    def _starts(self) -> _Numbers:
        return np.array([start for start, _ in self.history], np.int64)

    @cached_property
    def _before(self) -> list[_Numbers]:
        """How many turns each component had when each of the weights took effect."""
        counts = [np.zeros(len(self.history[0][1]), np.int64)]
        for rotation, length in zip(self._rotations, np.diff(self._starts).tolist(), strict=False):
            counts.append(counts[-1] + np.array([rotation.count(c, length) for c in range(len(counts[0]))], np.int64))
        return counts

    def turns(self, positions: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return the component of each position, and how many turns it had since position 0.

        Args:
            positions: int64[n] in `[0, 2**62)`.

        Returns:
            Components and counts, int64[n] each.
        """
        component, count = np.empty_like(positions), np.empty_like(positions)
        which = np.searchsorted(self._starts, positions, side="right") - 1
        for rows in group_rows(which):
            number = int(which[rows][0])
            component[rows], turn = self._rotations[number].turns(positions[rows] - self._starts[number])
            count[rows] = turn + self._before[number][component[rows]]
        return component, count

    def counts(self, position: int) -> list[int]:
        """Return how many of the first `position` positions each component has."""
        which = int(np.searchsorted(self._starts, position, side="right")) - 1
        rotation, local = self._rotations[which], position - int(self._starts[which])
        return [had + rotation.count(c, local) for c, had in enumerate(self._before[which].tolist())]


def epoch_length(lengths: Sequence[int], weights: Sequence[int], until: Until) -> int:
    """Return the number of positions in an epoch of a mixture with these weights.

    Args:
        lengths: Records of each component.
        weights: The result of `checked_weights`.
        until: `"first"`: until one component of positive weight is complete; `"all"`: until each of them is complete;
            an int: that many.

    Raises:
        ValueError: `until` is invalid, or the epoch would have 2**62 positions or more.
    """
    if isinstance(until, int) and not isinstance(until, bool):
        n = until
    elif until in ("first", "all"):
        rotation = _WeightedRotation(weights)
        ends = [rotation.end_of(c, lengths[c]) for c, weight in enumerate(weights) if weight]
        n = min(ends) if until == "first" else max(ends)
    else:
        raise ValueError(f"until: expected 'first', 'all' or a number of records, found {until!r}")
    if not 1 <= n < MAX_POSITION:
        raise ValueError(f"expected an epoch of 1 to 2**62 - 1 records, found {n} with until={until!r}")
    return n


def checked_weights(weights: Iterable[object], names: Sequence[str], lengths: Sequence[int]) -> tuple[int, ...]:
    """Return weights as a tuple of int, one for each component.

    Raises:
        TypeError: A weight is not a whole number.
        ValueError: A weight is negative, all are zero, their sum is 2**31 or more, there are too few or too many, or a
            component without records has a positive one.
    """
    found = tuple(_checked_weight(weight) for weight in weights)
    if len(found) != len(names):
        raise ValueError(f"expected a weight for each of {len(names)} components, found {len(found)}")
    for name, weight, n in zip(names, found, lengths, strict=True):
        if weight < 0:
            raise ValueError(f"component {name!r}: expected a weight of 0 or more, found {weight}")
        if weight and not n:
            raise ValueError(f"component {name!r} has no records: expected a weight of 0, found {weight}")
    if not 0 < sum(found) < _MAX_WEIGHT_SUM:
        raise ValueError(f"expected weights with a sum in [1, 2**31), found {sum(found)}. Only their ratios matter")
    return found


def _checked_weight(weight: object) -> int:
    try:
        return as_int(weight)
    except TypeError:
        raise TypeError(f"weights: expected whole numbers (7 and 3, not 0.7 and 0.3), found {weight!r}") from None


def changed_history(history: History, position: int, weights: tuple[int, ...]) -> History:
    """Return a history in which `weights` hold from `position` on.

    Weights equal to the last ones add no entry. Entries at `position` or later are replaced, because a run that goes
    back to an earlier position has not reached them.

    Raises:
        ValueError: The number of weights differs.
    """
    last, holding = history[-1]
    if len(weights) != len(holding):
        raise ValueError(f"expected {len(holding)} weights, one for each component as before, found {len(weights)}")
    if weights == holding:
        return history
    if position > last:
        return (*history, (position, weights))
    return changed_history(history[:-1], position, weights) if len(history) > 1 else ((position, weights),)
