"""Which positions a step covers, and which of them a rank gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.skips import POSITIONS, Skips

__all__ = ["Step", "Steps"]


@dataclass(frozen=True, slots=True)
class Step:
    """One batch of every rank.

    Attributes:
        epoch: The epoch that it lies in.
        positions: int64[n], ascending; n is at least 1.
        after: Where the next step begins.
    """

    epoch: int
    positions: NDArray[np.int64]
    after: int

    def run(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """Return the positions of one rank: contiguous runs whose lengths differ by at most one."""
        n = len(self.positions)
        return self.positions[n * rank // world_size : n * (rank + 1) // world_size]


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
        while True:
            remaining = self.skips.positions(position, POSITIONS, 1)  # which may lie many epochs ahead
            if not len(remaining):
                raise ValueError(f"nothing is left to load: all positions from {position} on are skipped")
            position = int(remaining[0])
            epoch = position // self.n
            stop = (epoch + 1) * self.n
            positions = self.skips.positions(position, stop, self.size)
            if self._is_step(len(positions)):
                after = int(positions[-1]) + 1
                return Step(epoch, positions, after if self._is_step(self._left(after, stop)) else stop)
            position = stop

    def following(self, position: int) -> Iterator[Step]:
        """Yield the steps from `position` on, without end unless all that follows is skipped."""
        while len(self.skips.positions(position, POSITIONS, 1)):
            step = self.at(position)
            yield step
            position = step.after

    def count(self, first: int) -> int:
        """Return how many steps there are from `first` to the end of its epoch."""
        left = self._left(first, (first // self.n + 1) * self.n)
        return left // self.size if self.drop_last else -(-left // self.size)

    def _left(self, first: int, stop: int) -> int:
        return stop - first - self.skips.count(first, stop)

    def _is_step(self, n: int) -> bool:
        return n >= self.size if self.drop_last else n > 0
