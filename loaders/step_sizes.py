"""StepSizes: how large the steps of a run are, from its first one on, so that the number of any step is known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from dataformats.integer_arguments import as_int


class StepSize(NamedTuple):
    """The size of the steps from a position on.

    Attributes:
        position: The position at which the first of these steps begins.
        step: The number of that step.
        batch_size: Records per rank.
        world_size: Number of ranks.
        drop_last: True if an epoch ends with its last full step.
    """

    position: int
    step: int
    batch_size: int
    world_size: int
    drop_last: bool


class StepSizes(tuple[StepSize, ...]):
    """The sizes of a run's steps, by ascending position. A run that resumes with another size gets one more.

    Example:
        >>> from dataformats.loaders.step_sizes import StepSize, StepSizes
        >>> sizes = StepSizes([StepSize(0, 0, 64, 2, False)]).then(StepSize(1280, 10, 64, 4, False))
        >>> sizes.of_step(12).world_size, sizes.at(1279).world_size
        (4, 2)
    """

    __slots__ = ()

    @classmethod
    def from_json(cls, sizes: Iterable[Iterable[object]]) -> StepSizes:
        """Return the sizes of lists of their attributes.

        Raises:
            TypeError, ValueError: They are not ascending, or not sizes.
        """
        found = cls(_parsed(list(size)) for size in sizes)
        for one, following in pairwise(found):
            if one.position >= following.position or one.step > following.step:
                raise ValueError("sizes of steps by ascending position")
        return found

    def then(self, size: StepSize) -> StepSizes:
        """Return these sizes and another one, which begins at the position of the run; the same if it is no other."""
        if self and self[-1][2:] == size[2:]:
            return self
        return StepSizes((*(one for one in self if one.position < size.position), size))

    def at(self, position: int) -> StepSize:
        """Return the size of the step that begins at a position or reaches over it.

        Raises:
            LookupError: It is unknown.
        """
        return self._last("position", position)

    def of_step(self, number: int) -> StepSize:
        """Return the size of a step.

        Raises:
            LookupError: It is unknown.
        """
        return self._last("step", number)

    def _last(self, name: str, most: int) -> StepSize:
        """Return the last size whose attribute `name` is at most `most`."""
        found = next((one for one in reversed(self) if getattr(one, name) <= most), None)
        if found is None:
            first = getattr(self[0], name) if self else most
            raise LookupError(f"the steps before {name} {first} are unknown")
        return found


def _parsed(size: list[object]) -> StepSize:
    *numbers, drop_last = size
    position, step, batch_size, world_size = map(as_int, numbers)
    if min(position, step) < 0 or min(batch_size, world_size) < 1 or not isinstance(drop_last, bool):
        raise ValueError("sizes of steps")
    return StepSize(position, step, batch_size, world_size, drop_last)
