"""Plan: the pure function from a position to (component, epoch, record)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.loaders.schedule import History, Schedule, checked_weights
from dataformats.loaders.shuffle import Epoch, Shuffle, group_rows
from dataformats.loaders.skips import MAX_POSITION

__all__ = ["PLAN_VERSION", "Place", "Plan", "Shuffle"]

PLAN_VERSION = 1
"""Another algorithm is another version, beside the old ones: a state keeps the order that it was begun with."""

_Numbers = NDArray[np.int64]


class Place(NamedTuple):
    """Which records a number of positions are, int64[n] each.

    Attributes:
        component: The number of the component; 0 where there is one source.
        epoch: How often the component was walked before.
        record: The record, in `[0, length of the component)`.
    """

    component: _Numbers
    epoch: _Numbers
    record: _Numbers


@dataclass(frozen=True)
class Plan:
    """Which record comes at which position.

    What it gives depends on its attributes and the position alone. Each walk through a component gives each of its
    records once. Thread-safe; pickles small.

    Attributes:
        lengths: Records of each component.
        n: Positions an epoch of the loader.
        shuffle: How each walk through a component is put in order.
        seed: Another seed, other orders.
        history: Weights of the components over time; see `Mixture.plan`.
        names: The components' names, for errors.
        version: The algorithm.

    Raises:
        ValueError: No component, no record, wrong weights, or a version that is not known.

    Example:
        >>> plan = Plan.of_one(10, Shuffle.of(True), seed=0)
        >>> plan.locate(range(10)).record.tolist()
        [2, 4, 3, 7, 5, 6, 8, 1, 0, 9]
        >>> plan.locate([9, 10]).epoch.tolist()
        [0, 1]
    """

    lengths: tuple[int, ...]
    n: int
    shuffle: Shuffle
    seed: int
    history: History = ((0, (1,)),)
    names: tuple[str, ...] = ("source",)
    version: int = PLAN_VERSION

    def __post_init__(self) -> None:
        if self.version != PLAN_VERSION:
            raise ValueError(f"plan version {self.version} is not known: this release knows {PLAN_VERSION}")
        if len(self.names) != len(self.lengths):
            raise ValueError(f"expected a name for each of {len(self.lengths)} components, found {self.names}")
        if not 1 <= self.n < MAX_POSITION or any(length >= MAX_POSITION for length in self.lengths):
            raise ValueError(f"a plan needs 1 to 2**62 - 1 records, found {self.n} of {self.lengths}")
        starts = [start for start, _ in self.history]
        if starts[:1] != [0] or any(a >= b for a, b in itertools.pairwise(starts)):
            raise ValueError(f"weights are listed by position, the first from 0 on, found {starts}")
        for _, weights in self.history:
            checked_weights(weights, self.names, self.lengths)

    @classmethod
    def of_one(cls, length: int, shuffle: Shuffle, seed: int, version: int = PLAN_VERSION) -> Plan:
        """Return the plan of one source, of which an epoch is a walk through all records."""
        return cls((length,), length, shuffle, seed, version=version)

    def locate(self, positions: ArrayLike | range) -> Place:
        """Return which records these positions are.

        Args:
            positions: int[n], each in `[0, 2**62)`, in any order.

        Raises:
            TypeError: Not whole numbers.
            ValueError: One is outside `[0, 2**62)`.
        """
        numbers = _checked(positions)
        if len(self.lengths) != 1:
            return self._places(*self._schedule.turns(numbers))
        n = self.lengths[0]
        if len(numbers) and (epoch := int(numbers.min()) // n) == int(numbers.max()) // n:
            records = self._walk(0, epoch).records(numbers - epoch * n, self.shuffle)
            return Place(np.zeros_like(numbers), np.full_like(numbers, epoch), records)
        return self._places(np.zeros_like(numbers), numbers)

    def records(self, positions: _Numbers) -> tuple[_Numbers | None, _Numbers]:
        """Return components and records, as `locate` does, for every batch: of positions that are known to be sound.

        Args:
            positions: int64[n], each in `[0, 2**62)`, ascending.

        Returns:
            Components, `None` where all are of the one source, and records.
        """
        if len(self.lengths) == 1 and len(positions):
            n = self.lengths[0]
            epoch = int(positions[0]) // n
            if int(positions[-1]) < (epoch + 1) * n:
                return None, self._walk(0, epoch).records(positions - epoch * n, self.shuffle)
        place = self.locate(positions)
        return place.component, place.record

    def _places(self, component: _Numbers, count: _Numbers) -> Place:
        epoch, places = np.divmod(count, self._lengths[component])
        if self.shuffle.kind == "none":
            return Place(component, epoch, places)
        records = np.empty_like(places)
        for rows in group_rows(component, epoch):
            walk = self._walk(int(component[rows][0]), int(epoch[rows][0]))
            records[rows] = walk.records(places[rows], self.shuffle)
        return Place(component, epoch, records)

    def _walk(self, component: int, epoch: int) -> Epoch:
        return Epoch(self.lengths[component], (self.version, self.seed, epoch, component))

    @cached_property
    def _schedule(self) -> Schedule:
        return Schedule(self.history)

    @cached_property
    def _lengths(self) -> _Numbers:
        return np.array(self.lengths, np.int64)


def _checked(positions: ArrayLike | range) -> _Numbers:
    array = np.asarray(positions)
    if not array.size:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"positions are a list of whole numbers, found {array.dtype} of shape {array.shape}")
    numbers = array.astype(np.int64, copy=False)
    if int(numbers.view(np.uint64).max()) >= MAX_POSITION:  # negative ones are huge
        wrong = array[(array < 0) | (array >= MAX_POSITION)][0]
        raise ValueError(f"position {wrong} is outside [0, 2**62)")
    return numbers
