"""StatusBoard: a few numbers per worker, in memory that workers and parent share, without a lock."""

from __future__ import annotations

import mmap
import os

from dataformats.loaders.processes.anonymous_memory import unnamed_memory

FREE, HELD, GONE = 0, 1, 2
"""State of a slot: the worker may fill it; arrays in it may be alive; it must not be used again."""

_TICKS, _POSITION, _NUMBER, _SLOTS = range(4)
_NONE = -1


class StatusBoard:
    """The status of each worker.

    Numbers are only changed by plain stores of eight bytes, and each has one writer at a time. So there is no lock that
    a killed process could leave locked.

    Args:
        n_workers: Number of workers.
        n_slots: Slots that one worker may have.
        descriptor: The memory, if another process created it; `None` creates it.

    Attributes:
        statuses: The status of each worker.
    """

    def __init__(self, n_workers: int, n_slots: int, descriptor: int | None = None) -> None:
        width = _SLOTS + n_slots
        size = 8 * n_workers * width
        self.descriptor: int = unnamed_memory(size) if descriptor is None else descriptor
        numbers = memoryview(mmap.mmap(self.descriptor, size)).cast("q")
        self.statuses: list[WorkerStatus] = [
            WorkerStatus(numbers[first : first + width]) for first in range(0, len(numbers), width)
        ]
        if descriptor is None:
            for status in self.statuses:
                status.end()

    def close_descriptor(self) -> None:
        """Close the descriptor; the memory stays."""
        os.close(self.descriptor)


class WorkerStatus:
    """The numbers of one worker. Calling it with a position makes it the `Progress` of the batch being built.

    Attributes:
        slots: int64[n_slots], the state of each slot: `FREE`, `HELD` or `GONE`.
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
        """Record that task `number` has begun."""
        self._numbers[_POSITION] = _NONE
        self._numbers[_NUMBER] = number
        self._numbers[_TICKS] += 1

    def end(self) -> None:
        """Record that the worker has no task."""
        self._numbers[_NUMBER] = _NONE
        self._numbers[_TICKS] += 1

    @property
    def ticks(self) -> int:
        """A number that changes whenever the worker makes progress."""
        return int(self._numbers[_TICKS])

    @property
    def number(self) -> int | None:
        """The current task, or `None`."""
        number = int(self._numbers[_NUMBER])
        return None if number == _NONE else number

    @property
    def position(self) -> int | None:
        """The record that the current task began last, or `None`."""
        position = int(self._numbers[_POSITION])
        return None if position == _NONE else position
