"""Board: the numbers by which workers and their feed know of each other, in memory that all of them share."""

from __future__ import annotations

import mmap
import os

from dataformats.loaders.processes.shared_memory import anonymous

__all__ = ["FREE", "GONE", "HELD", "StatusBoard", "WorkerStatus"]

FREE, HELD, GONE = 0, 1, 2
"""What a slot is: the worker may fill it; somebody may look at it; it must not be used again."""

_TICKS, _POSITION, _NUMBER, _SLOTS = range(4)
_NONE = -1


class StatusBoard:
    """A row of numbers for each worker.

    A plain store of eight bytes is all that ever happens to them, each has one writer at a time, and there is no lock
    that a process could take with it when it is killed.

    Args:
        n_workers: Rows.
        n_slots: Slots that one worker may have.
        descriptor: The memory, where another process made it; `None` makes it.
    """

    def __init__(self, n_workers: int, n_slots: int, descriptor: int | None = None) -> None:
        size = 8 * n_workers * (_SLOTS + n_slots)
        self.descriptor: int = anonymous(size) if descriptor is None else descriptor
        self._width = _SLOTS + n_slots
        numbers = memoryview(mmap.mmap(self.descriptor, size)).cast("q")
        self.statuses: list[WorkerStatus] = [
            WorkerStatus(numbers[first : first + self._width]) for first in range(0, len(numbers), self._width)
        ]
        if descriptor is None:
            for row in self.statuses:
                row.end()

    def close_descriptor(self) -> None:
        """Close the descriptor; the memory stays."""
        os.close(self.descriptor)


class WorkerStatus:
    """The numbers of one worker; called with a position it is the `Progress` of the batch that is made.

    Attributes:
        slots: int64[n_slots], what each slot is: `FREE`, `HELD` or `GONE`.
    """

    __slots__ = ("_numbers", "slots")

    def __init__(self, numbers: memoryview) -> None:
        self._numbers = numbers
        self.slots: memoryview = numbers[_SLOTS:]

    def __call__(self, position: int) -> None:
        numbers = self._numbers
        numbers[_POSITION] = position
        numbers[_TICKS] += 1

    def begin(self, number: int) -> None:
        """Say that task `number` is begun."""
        self._numbers[_POSITION] = _NONE
        self._numbers[_NUMBER] = number
        self._numbers[_TICKS] += 1

    def end(self) -> None:
        """Say that no task is in hand."""
        self._numbers[_NUMBER] = _NONE
        self._numbers[_TICKS] += 1

    @property
    def ticks(self) -> int:
        """A number that changes whenever the worker comes on."""
        return int(self._numbers[_TICKS])

    @property
    def number(self) -> int | None:
        """The task in hand, or `None`."""
        number = int(self._numbers[_NUMBER])
        return None if number == _NONE else number

    @property
    def position(self) -> int | None:
        """The record that was begun last for the task in hand, or `None`."""
        position = int(self._numbers[_POSITION])
        return None if position == _NONE else position
