"""Which positions a step covers, and which of them a rank gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.prefetch import FixedTask
from dataformats.loaders.skips import MAX_POSITION, Skips

__all__ = ["RankTask", "Step", "Steps"]

_SPARE = 32  # of its step and of the first one, an empty batch may borrow a record: more than may well be damaged


@dataclass(slots=True)  # one for each batch: frozen ones take a call for each attribute, as named tuples do
class Step:
    """One batch of every rank.

    Attributes:
        epoch: The epoch that it lies in.
        first: Its first position.
        n: How many it has, at least 1.
        after: Where the next step begins.
        skips: Positions that are left out.
    """

    epoch: int
    first: int
    n: int
    after: int
    skips: Skips

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[n], ascending."""
        return self.skips.positions(self.first, MAX_POSITION, self.n)

    def run(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """Return the positions of one rank: contiguous runs whose lengths differ by at most one."""
        begin, end = self.n * rank // world_size, self.n * (rank + 1) // world_size
        if begin == end:
            return np.zeros(0, np.int64)
        return self.skips.positions(self.skips.nth(self.first, begin), MAX_POSITION, end - begin)


@dataclass(slots=True)
class RankTask:
    """The task of one rank in a step.

    Its numbers are made where they are asked for, which is in the thread that makes the batch: who hands out tasks does
    so under a lock. What is pickled are the numbers, as there may be more skips than those.

    Attributes:
        step: The step.
        rank: The rank.
        world_size: How many there are.
        n: Positions of an epoch.
    """

    step: Step
    rank: int
    world_size: int
    n: int

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[m], ascending; may be empty."""
        return self.step.run(self.rank, self.world_size)

    @property
    def spare(self) -> NDArray[np.int64]:
        """int64[m], some of the step, and of the first one."""
        of_step = self.step.skips.positions(self.step.first, MAX_POSITION, min(_SPARE, self.step.n))
        return np.concatenate([of_step, np.arange(min(_SPARE, self.n))])

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedTask, (self.positions, self.spare)


@dataclass(frozen=True)
class Steps:
    """The steps of a run: a pure function of these numbers, the same on every rank.

    Attributes:
        n: Positions of an epoch.
        size: Positions of a full step, over all ranks.
        drop_last: True where the end of an epoch that is no full step is left out.
        skips: Positions that are left out.
    """

    n: int
    size: int
    drop_last: bool
    skips: Skips

    def __post_init__(self) -> None:
        if self.drop_last and self.size > self.n:
            raise ValueError(
                f"drop_last=True leaves out everything: a step takes {self.size} records (batch_size x world_size), "
                f"and an epoch has {self.n}"
            )

    def at(self, position: int) -> Step:
        """Return the first step that begins at `position` or behind it; no step spans two epochs.

        Raises:
            ValueError: All positions from there on are skipped.
        """
        skips, size = self.skips, self.size
        least = size if self.drop_last else 1
        while self._left(position, MAX_POSITION) > 0:
            position = skips.nth(position, 0)  # which may lie many epochs ahead
            epoch = position // self.n
            stop = (epoch + 1) * self.n
            left = self._left(position, stop)
            n = min(size, left)
            if n >= least:
                after = skips.nth(position, n - 1) + 1 if left - n >= least else stop
                return Step(epoch, position, n, after, skips)
            position = stop
        raise ValueError(f"nothing is left to load: all positions from {position} on are skipped")

    def following(self, position: int) -> Iterator[Step]:
        """Yield the steps from `position` on, without end unless all that follows is skipped."""
        while self._left(position, MAX_POSITION) > 0:
            step = self.at(position)
            yield step
            position = step.after

    def rank_tasks(self, position: int, rank: int, world_size: int) -> Iterator[RankTask]:
        """Yield what a rank does in these steps."""
        return (RankTask(step, rank, world_size, self.n) for step in self.following(position))

    def count(self, first: int) -> int:
        """Return how many steps there are from `first` to the end of its epoch."""
        left = self._left(first, (first // self.n + 1) * self.n)
        return left // self.size if self.drop_last else -(-left // self.size)

    def _left(self, first: int, stop: int) -> int:
        return stop - first - self.skips.count(first, stop)
