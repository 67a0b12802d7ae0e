"""The positions of a step, and the part of them that each rank reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.prefetcher import FixedTask
from dataformats.loaders.skips import MAX_POSITION, Skips

__all__ = ["RankTask", "Step", "Steps"]

Streams = Callable[[NDArray[np.int64]], NDArray[np.int64]]

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
        streams: See `Steps`.
    """

    epoch: int
    first: int
    n: int
    after: int
    skips: Skips
    streams: Streams | None = None

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[n], ascending."""
        return self.skips.positions(self.first, MAX_POSITION, self.n)

    def of_rank(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """Return the positions of one rank: parts of the step whose lengths differ by at most one.

        They are contiguous, if there is one stream; else contiguous among the positions sorted by stream, so that a
        rank reads from as few streams as possible.
        """
        begin, end = self.n * rank // world_size, self.n * (rank + 1) // world_size
        if begin == end:
            return np.zeros(0, np.int64)
        if self.streams is not None:
            positions = self.positions
            by_stream = np.argsort(self.streams(positions), kind="stable")
            return np.sort(positions[by_stream[begin:end]])
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
        streams: Returns the stream of windows of each position, if there are several: see `Plan.streams`.
    """

    n: int
    size: int
    drop_last: bool
    skips: Skips
    streams: Streams | None = None

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

    def between(self, first: int, stop: int) -> int:
        """Return how many steps from `first` on begin before `stop`, in the same time for any number of epochs."""
        begin, end = first // self.n, stop // self.n  # epochs
        if begin == end:
            return min(-(-self._left(first, stop) // self.size), self.count(first))
        touched, n_skipped = set[int](), 0  # epochs between that skips end in, or cover
        for start, after in self.skips.ranges:
            touched |= {epoch for epoch in (start // self.n, (after - 1) // self.n) if begin < epoch < end}
            n_skipped += max(0, min((after - 1) // self.n, end) - max(start // self.n, begin) - 1)
        whole = self.n // self.size if self.drop_last else -(-self.n // self.size)
        full = (end - begin - 1 - len(touched) - n_skipped) * whole
        some = sum(self.count(epoch * self.n) for epoch in touched)
        return self.count(first) + full + some + self.between(end * self.n, stop)

    def nth(self, first: int, number: int) -> Step:
        """Return the step with this number, counted from 0 at the step that begins at `first`.

        Raises:
            LookupError: The positions end before it.
        """
        low, high = first // self.n, MAX_POSITION // self.n
        if self.between(first, high * self.n) <= number:
            raise LookupError("the positions end before this step")
        while low < high:  # the epoch that has it
            middle = (low + high) // 2
            low, high = (low, middle) if self.between(first, (middle + 1) * self.n) > number else (middle + 1, high)
        begin = max(first, low * self.n)
        return self.at(self.skips.nth(begin, (number - self.between(first, begin)) * self.size))

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
                return Step(epoch, position, n, after, skips, self.streams)
            position = stop
        return None

    def _left(self, first: int, stop: int) -> int:
        return stop - first - self.skips.count(first, stop)
