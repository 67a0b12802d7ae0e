"""The positions of a step, and the part of them that each rank reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.epochs import Epochs
from dataformats.loaders.prefetcher import FixedTask
from dataformats.loaders.skips import MAX_POSITION, Skips

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
        n: Positions of the first epoch.
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
        epochs: Where epochs begin and end.
        size: Positions of a full step, over all ranks.
        drop_last: True if an epoch ends with its last full step.
        skips: Positions that the run leaves out.
        streams: Returns the stream of windows of each position, if there are several: see `Plan.streams`.
    """

    epochs: Epochs
    size: int
    drop_last: bool
    skips: Skips
    streams: Streams | None = None

    def __post_init__(self) -> None:
        if self.drop_last and self.size > self.epochs.length:
            raise ValueError(
                f"drop_last=True leaves out every record: expected an epoch of at least {self.size} records "
                f"(batch_size x world_size), found {self.epochs.length}. Lower batch_size or pass drop_last=False"
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
        return (RankTask(step, rank, world_size, self.epochs.lengths[0][1]) for step in steps)

    def count(self, first: int) -> int:
        """Return the number of steps from `first` to the end of its epoch."""
        left = self._left(first, self.epochs.at(first)[2])
        return left // self.size if self.drop_last else -(-left // self.size)

    def between(self, first: int, stop: int) -> int:
        """Return how many steps from `first` on begin before `stop`, in the same time for any number of epochs."""
        begin, (end, begins, _) = self.epochs.at(first)[0], self.epochs.at(stop)
        if begin == end:
            return min(-(-self._left(first, stop) // self.size), self.count(first))
        runs = self.epochs.between(begin + 1, end)
        return self.count(first) + sum(self._steps_of(*run) for run in runs) + self.between(begins, stop)

    def _steps_of(self, low: int, high: int, length: int) -> int:
        """Return the number of steps of the epochs `[low, high)`, which have this length."""
        touched, n_skipped = set[int](), 0  # epochs that skips end in, or cover
        for start, after in self.skips.ranges:
            first, last = self.epochs.at(start)[0], self.epochs.at(after - 1)[0]
            touched |= {epoch for epoch in (first, last) if low <= epoch < high}
            n_skipped += max(0, min(last, high) - max(first + 1, low))
        whole = length // self.size if self.drop_last else -(-length // self.size)
        some = sum(self.count(self.epochs.first(epoch)) for epoch in touched)
        return (high - low - len(touched) - n_skipped) * whole + some

    def nth(self, first: int, number: int) -> Step:
        """Return the step with this number, counted from 0 at the step that begins at `first`.

        Raises:
            LookupError: The positions end before it.
        """
        epochs = self.epochs
        low, high = epochs.at(first)[0], epochs.at(MAX_POSITION)[0]
        if self.between(first, epochs.first(high)) <= number:
            raise LookupError("the positions end before this step")
        while low < high:  # the epoch that has it
            middle = (low + high) // 2
            low, high = (low, middle) if self.between(first, epochs.first(middle + 1)) > number else (middle + 1, high)
        begin = max(first, epochs.first(low))
        return self.at(self.skips.nth(begin, (number - self.between(first, begin)) * self.size))

    def _find(self, position: int) -> Step | None:
        skips, size = self.skips, self.size
        least = size if self.drop_last else 1
        while self._left(position, MAX_POSITION) > 0:
            position = skips.nth(position, 0)  # may lie many epochs ahead
            epoch, _, stop = self.epochs.at(position)
            left = self._left(position, stop)
            n = min(size, left)
            if n >= least:
                after = skips.nth(position, n - 1) + 1 if left - n >= least else stop
                return Step(epoch, position, n, after, skips, self.streams)
            position = stop
        return None

    def _left(self, first: int, stop: int) -> int:
        return stop - first - self.skips.count(first, stop)
