"""The positions of a step, and the part of them that each rank reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.prefetcher import FixedTask
from dataformats.loaders.skips import MAX_POSITION, Skips

__all__ = ["RankTask", "Step", "Steps"]

_SPARE = 32  # positions of the step, and of the first epoch, that an empty batch may borrow a record from


@dataclass(slots=True)  # one per batch: a frozen dataclass or a named tuple calls a function for each attribute
class Step:
    """One batch of every rank.

    Attributes:
        epoch: The epoch that contains it.
        first: Its first position.
        n: Number of positions, at least 1.
        after: Where the next step begins.
        skips: Positions that the run leaves out.
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

    def of_rank(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """Return the positions of one rank: contiguous parts of the step whose lengths differ by at most one."""
        begin, end = self.n * rank // world_size, self.n * (rank + 1) // world_size
        if begin == end:
            return np.zeros(0, np.int64)
        return self.skips.positions(self.skips.nth(self.first, begin), MAX_POSITION, end - begin)


@dataclass(slots=True)
class RankTask:
    """The task of one rank in a step: a `BatchTask` that computes its positions when asked.

    So the thread that builds the batch computes them; tasks are handed out under a lock. A pickle holds the positions,
    because the skips could be larger.

    Attributes:
        step: The step.
        rank: The rank.
        world_size: Number of ranks.
        n: Positions of an epoch.
    """

    step: Step
    rank: int
    world_size: int
    n: int

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[m], ascending; may be empty."""
        return self.step.of_rank(self.rank, self.world_size)

    @property
    def spare(self) -> NDArray[np.int64]:
        """int64[m], some positions of the step, then some of the first epoch."""
        of_step = self.step.skips.positions(self.step.first, MAX_POSITION, min(_SPARE, self.step.n))
        return np.concatenate([of_step, np.arange(min(_SPARE, self.n))])

    @property
    def after(self) -> int:
        """The position at which the next step begins."""
        return self.step.after

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedTask, (self.positions, self.spare, self.after)


@dataclass(frozen=True)
class Steps:
    """The steps of a run: a pure function of these numbers, the same on every rank.

    Attributes:
        n: Positions of an epoch.
        size: Positions of a full step, over all ranks.
        drop_last: True if an epoch ends with its last full step.
        skips: Positions that the run leaves out.
    """

    n: int
    size: int
    drop_last: bool
    skips: Skips

    def __post_init__(self) -> None:
        if self.drop_last and self.size > self.n:
            raise ValueError(
                f"drop_last=True leaves out every record: expected an epoch of at least {self.size} records "
                f"(batch_size x world_size), found {self.n}. Lower batch_size or pass drop_last=False"
            )

    def at(self, position: int) -> Step:
        """Return the first step that begins at `position` or after it; no step spans two epochs.

        Raises:
            ValueError: All positions from there on are skipped.
        """
        step = self._find(position)
        if step is None:
            raise ValueError(f"no record is left to load: all positions from {position} on are skipped")
        return step

    def following(self, position: int) -> Iterator[Step]:
        """Yield the steps from `position` on; ends only if all later positions are skipped."""
        while (step := self._find(position)) is not None:
            yield step
            position = step.after

    def rank_tasks(self, position: int, rank: int, world_size: int, epoch: int | None) -> Iterator[RankTask]:
        """Yield the tasks of one rank in these steps, to the end of this epoch unless it is `None`."""
        steps = self.following(position)
        if epoch is not None:
            steps = takewhile(lambda step: step.epoch == epoch, steps)
        return (RankTask(step, rank, world_size, self.n) for step in steps)

    def count(self, first: int) -> int:
        """Return the number of steps from `first` to the end of its epoch."""
        left = self._left(first, (first // self.n + 1) * self.n)
        return left // self.size if self.drop_last else -(-left // self.size)

    def _find(self, position: int) -> Step | None:
        skips, size = self.skips, self.size
        least = size if self.drop_last else 1
        while self._left(position, MAX_POSITION) > 0:
            position = skips.nth(position, 0)  # may lie many epochs ahead
            epoch = position // self.n
            stop = (epoch + 1) * self.n
            left = self._left(position, stop)
            n = min(size, left)
            if n >= least:
                after = skips.nth(position, n - 1) + 1 if left - n >= least else stop
                return Step(epoch, position, n, after, skips)
            position = stop
        return None

    def _left(self, first: int, stop: int) -> int:
        return stop - first - self.skips.count(first, stop)
