"""Plan: the pure function from a position to (component, epoch, record)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.fork_hooks import cached_property
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.epochs import Epochs
from dataformats.loaders.grown_order import split_places
from dataformats.loaders.mixture_schedule import History, Schedule, checked_weights
from dataformats.loaders.shuffle import Epoch, Shuffle, group_rows
from dataformats.loaders.skips import MAX_POSITION

__all__ = ["Place"]

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
        grown: The epochs of the loader, then of each component, if records were appended during the run.

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
    grown: tuple[Epochs, ...] = ()

    def __post_init__(self) -> None:
        if self.version != PLAN_VERSION:
            raise ValueError(f"unknown plan version: expected {PLAN_VERSION}, found {self.version}")
        if len(self.names) != len(self.lengths):
            raise ValueError(f"expected a name for each of {len(self.lengths)} components, found {self.names}")
        if not 1 <= self.n < MAX_POSITION or any(length >= MAX_POSITION for length in self.lengths):
            raise ValueError(f"expected 1 to 2**62 - 1 records, found {self.n} of {self.lengths}")
        if self.grown and [one.length for one in self.grown] != [self.n, *self.lengths]:
            raise ValueError(f"expected epochs of {[self.n, *self.lengths]} records at last, found {self.grown}")
        if all(len(one.lengths) == 1 for one in self.grown):
            object.__setattr__(self, "grown", ())
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
        if len(self.lengths) == 1 and len(numbers):
            epoch, first, stop = self.epochs.at(int(numbers.min()))
            if int(numbers.max()) < stop and (not self.grown or self._is_whole(epoch)):
                records = self.epoch(0, epoch).records(numbers - first, self.shuffle)
                return Place(np.zeros_like(numbers), np.full_like(numbers, epoch), records)
        component, epochs, part, places = self.places(numbers)
        if self.shuffle.kind == "none":
            return Place(component, epochs, part + places)
        records = np.empty_like(places)
        for rows in group_rows(component, epochs, part):
            order = self.epoch(*(int(column[rows][0]) for column in (component, epochs, part)))
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
            epoch, first, stop = self.epochs.at(int(positions[0]))
            if int(positions[-1]) < stop and (not self.grown or self._is_whole(epoch)):
                return None, self.epoch(0, epoch).records_of_batch(positions - first, self.shuffle)
        place = self.locate(positions)
        return place.component, place.record

    def places(self, positions: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers, _Numbers]:
        """Return component, epoch, part, and place in the part's order, of each of these positions, int64[n] each.

        The part is the number of its first record: 0, or the first record that was appended at some position.

        Args:
            positions: int64[n], each in `[0, 2**62)`.
        """
        component, count = np.zeros_like(positions), positions
        if len(self.lengths) > 1:
            component, count = self._schedule.turns(positions)
        if not self.grown:
            return component, *self._divided(component, count)
        epoch, part, place = np.empty_like(count), np.empty_like(count), np.empty_like(count)
        for rows in group_rows(component):
            number = int(component[rows][0])
            epoch[rows], part[rows], place[rows] = self._parts(number, count[rows])
        return component, epoch, part, place

    def _divided(self, component: _Numbers, count: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
        epoch, place = np.divmod(count, self._lengths[component])
        return epoch, np.zeros_like(epoch), place

    def _parts(self, component: int, count: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Return epoch, part and place of the turns of one component."""
        epochs, places = self.grown[1 + component].places(count)
        part = np.zeros_like(places)
        for rows in group_rows(epochs):
            epoch = int(epochs[rows][0])
            parts = self.grown[1 + component].parts(epoch)
            if len(parts) > 1:
                name = self.epoch(component, epoch).name
                part[rows], places[rows] = split_places(places[rows], parts, self.shuffle, name)
        return epochs, part, places

    def streams(self, positions: _Numbers) -> _Numbers:
        """Return the stream of windows that each of these positions reads from, int64[n] in `[0, groups)`."""
        return self.places(positions)[3] % self.shuffle.groups

    def epoch(self, component: int, epoch: int, part: int = 0) -> Epoch:
        """Return the order of an epoch of a component, or of a part of it: see `places`."""
        blocks = self.blocks[component] if self.blocks else None
        name = self.version, self.seed, epoch, component
        if not self.grown:
            return Epoch(self.lengths[component], name, blocks)
        end = next(end for _, begin, end in self.grown[1 + component].parts(epoch) if begin == part)
        return Epoch(end - part, (*name, part) if part else name, blocks and blocks.part(part, end), part)

    def _is_whole(self, epoch: int) -> bool:
        """Return True if no records were appended during an epoch of the loader."""
        return len(self.epochs.parts(epoch)) == 1

    @cached_property
    def epochs(self) -> Epochs:
        """The epochs of the loader."""
        return self.grown[0] if self.grown else Epochs.of(self.n)

    @property
    def all_epochs(self) -> tuple[Epochs, ...]:
        """The epochs of the loader, then of each component."""
        return self.grown or tuple(map(Epochs.of, (self.n, *self.lengths)))

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
