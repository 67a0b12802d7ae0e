"""Plan: the pure function from a position to (component, epoch, record)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.fork_hooks import cached_property
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.mixture_schedule import History, Schedule, checked_weights
from dataformats.loaders.shuffle import Epoch, Shuffle, group_rows
from dataformats.loaders.skips import MAX_POSITION

__all__ = ["PLAN_VERSION", "Place", "Plan", "Shuffle"]

PLAN_VERSION = 1
"""Version of the order. A new algorithm gets a new version beside the old ones: a run keeps the order it began with."""

_Numbers = NDArray[np.int64]


class Place(NamedTuple):
    """The records of some positions, int64[n] each.

    Attributes:
        component: The number of the component; 0 if there is one source.
        epoch: How often the component was completed before.
        record: The index of the record, in `[0, length of the component)`.
    """

    component: _Numbers
    epoch: _Numbers
    record: _Numbers


@dataclass(frozen=True)
class Plan:
    """Maps positions to records.

    The result depends on its attributes and the position alone. Each epoch of a component has each of its records once.
    Thread-safe; pickles small.

    Attributes:
        lengths: Records of each component.
        n: Positions per epoch of the loader.
        shuffle: The order of each epoch of a component.
        seed: Another seed gives other orders.
        history: Weights of the components over time; see `Mixture.plan`.
        names: The components' names, for errors.
        version: The algorithm.
        blocks: The blocks that each component decodes at once, if there are any; `()`: none of them does.

    Raises:
        ValueError: There is no component or record, the weights are wrong, or the version is unknown.

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
    blocks: tuple[Blocks | None, ...] = ()

    def __post_init__(self) -> None:
        if self.version != PLAN_VERSION:
            raise ValueError(f"unknown plan version: expected {PLAN_VERSION}, found {self.version}")
        if len(self.names) != len(self.lengths):
            raise ValueError(f"expected a name for each of {len(self.lengths)} components, found {self.names}")
        if not 1 <= self.n < MAX_POSITION or any(length >= MAX_POSITION for length in self.lengths):
            raise ValueError(f"expected 1 to 2**62 - 1 records, found {self.n} of {self.lengths}")
        starts = [start for start, _ in self.history]
        if starts[:1] != [0] or any(a >= b for a, b in itertools.pairwise(starts)):
            raise ValueError(f"expected weights by ascending position, the first at 0, found {starts}")
        for _, weights in self.history:
            checked_weights(weights, self.names, self.lengths)

    @classmethod
    def of_one(
        cls, length: int, shuffle: Shuffle, seed: int, version: int = PLAN_VERSION, blocks: Blocks | None = None
    ) -> Plan:
        """Return the plan of one source; an epoch is all of its records."""
        return cls((length,), length, shuffle, seed, version=version, blocks=(blocks,))

    def locate(self, positions: ArrayLike | range) -> Place:
        """Return the records of these positions.

        Args:
            positions: int[n], each in `[0, 2**62)`, in any order.

        Raises:
            TypeError: A position is not a whole number.
            ValueError: A position is outside `[0, 2**62)`.
        """
        numbers = _checked(positions)
        n = self.lengths[0]
        if len(self.lengths) == 1 and len(numbers) and (epoch := int(numbers.min()) // n) == int(numbers.max()) // n:
            records = self.epoch(0, epoch).records(numbers - epoch * n, self.shuffle)
            return Place(np.zeros_like(numbers), np.full_like(numbers, epoch), records)
        component, epochs, places = self.places(numbers)
        if self.shuffle.kind == "none":
            return Place(component, epochs, places)
        records = np.empty_like(places)
        for rows in group_rows(component, epochs):
            order = self.epoch(int(component[rows][0]), int(epochs[rows][0]))
            records[rows] = order.records(places[rows], self.shuffle)
        return Place(component, epochs, records)

    def records(self, positions: _Numbers) -> tuple[_Numbers | None, _Numbers]:
        """Return components and records, as `locate` does, for positions known to be valid; called for every batch.

        Args:
            positions: int64[n], each in `[0, 2**62)`, ascending.

        Returns:
            Components, or `None` if there is only one, and records.
        """
        if len(self.lengths) == 1 and len(positions):
            n = self.lengths[0]
            epoch = int(positions[0]) // n
            if int(positions[-1]) < (epoch + 1) * n:
                return None, self.epoch(0, epoch).records(positions - epoch * n, self.shuffle)
        place = self.locate(positions)
        return place.component, place.record

    def places(self, positions: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Return component, epoch and place in the epoch's order of each of these positions, int64[n] each.

        Args:
            positions: int64[n], each in `[0, 2**62)`.
        """
        if len(self.lengths) == 1:
            return np.zeros_like(positions), *np.divmod(positions, self.lengths[0])
        component, count = self._schedule.turns(positions)
        return component, *np.divmod(count, self._lengths[component])

    def streams(self, positions: _Numbers) -> _Numbers:
        """Return the stream of windows that each of these positions reads from, int64[n] in `[0, groups)`."""
        return self.places(positions)[2] % self.shuffle.groups

    def epoch(self, component: int, epoch: int) -> Epoch:
        """Return the order of an epoch of a component."""
        blocks = self.blocks[component] if self.blocks else None
        return Epoch(self.lengths[component], (self.version, self.seed, epoch, component), blocks)

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
        raise TypeError(f"positions: expected a list of whole numbers, found {array.dtype} of shape {array.shape}")
    numbers = array.astype(np.int64, copy=False)
    if int(numbers.view(np.uint64).max()) >= MAX_POSITION:  # negative ones appear huge
        wrong = array[(array < 0) | (array >= MAX_POSITION)][0]
        raise ValueError(f"position {wrong} is out of range: expected one in [0, 2**62)")
    return numbers
