"""Slots: shared memory that carries a worker's batches to the process that takes them.

A worker creates its slots (`SlotWriter`), sends each one once, as a descriptor, and fills it again when no array in it
is alive. The other process maps a slot once (`SlotReader`); the arrays of a batch are views of it. Slots are reused
because a new one costs more than what is written to it: the operating system clears it page by page, 6.4 ms for 8 MB,
against 0.3 ms for a used one.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import buffers
from dataformats.loaders.processes.anonymous_memory import memory_error, unnamed_memory
from dataformats.loaders.processes.serialize import ALIGNMENT
from dataformats.loaders.processes.status import FREE, GONE, HELD, WorkerStatus

_MIN_SIZE = 2**16
_SIZES_PER_DOUBLING = 8  # so batches of slightly different sizes fit the same slots
MAX_HELD = 24
"""Slots that the caller may hold; each needs a descriptor, and a worker has a fixed number of slots."""


@dataclass(slots=True)
class WritableSlot:
    """A slot that a worker is about to fill and send.

    Attributes:
        index: Its number among the worker's slots.
        size: Its bytes.
        memory: The memory to write to.
        descriptor: The memory of a new slot, which the receiver closes; `None` if the slot was sent before.
        dropped: A slot that the worker gave up, or -1.
    """

    index: int
    size: int
    memory: mmap.mmap
    descriptor: int | None
    dropped: int


class SlotWriter:
    """The slots of a worker, in the worker.

    Args:
        status: Has the state of each slot.
        n_spare: Slots that may be unused.
    """

    def __init__(self, status: WorkerStatus, n_spare: int) -> None:
        self._status = status
        self._n_spare = n_spare
        self._memory: dict[int, mmap.mmap] = {}

    def take(self, n_bytes: int) -> WritableSlot:
        """Return a slot with room for this many bytes, and mark it as held.

        Raises:
            OSError: No memory is left for another slot.
        """
        states = self._status.slots
        for index in [index for index in self._memory if states[index] == GONE]:
            self._drop(index)
        free = sorted((len(memory), index) for index, memory in self._memory.items() if states[index] == FREE)
        fitting = [index for size, index in free if size >= n_bytes]
        dropped = -1
        if len(free) > self._n_spare or (free and not fitting):
            dropped = free[0][1] if not fitting or fitting[0] != free[0][1] else free[-1][1]
            self._drop(dropped)
        descriptor = None
        if fitting:
            index = fitting[0]
        else:
            index, descriptor = self._create(n_bytes)
        states[index] = HELD
        memory = self._memory[index]
        return WritableSlot(index, len(memory), memory, descriptor, dropped)

    def _drop(self, index: int) -> None:
        self._memory.pop(index).close()
        self._status.slots[index] = FREE

    def _create(self, n_bytes: int) -> tuple[int, int]:
        unused = set(range(len(self._status.slots))).difference(self._memory)
        if not unused:
            raise RuntimeError(f"all {len(self._memory)} slots are in use: the pool has too few slots for its tasks")
        index = min(unused)
        size = _size_class(max(n_bytes, _MIN_SIZE))
        descriptor = unnamed_memory(size)
        try:
            self._memory[index] = mmap.mmap(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise memory_error(error, size) from error
        return index, descriptor


class SlotReader:
    """The slots of one worker, in the process that takes its batches.

    Args:
        status: Where slots are marked as free.
        held: The slots of all workers that have arrays alive; all readers of a pool share it.
    """

    def __init__(self, status: WorkerStatus, held: set[object]) -> None:
        self._status = status
        self._held = held
        self._memory: dict[int, mmap.mmap] = {}

    def add(self, index: int, size: int, descriptor: int) -> None:
        """Map a new slot, and close its descriptor.

        Raises:
            OSError: No memory or descriptor is left.
        """
        try:
            self._memory[index] = mmap.mmap(descriptor, size)
        except OSError as error:
            raise memory_error(error, size) from error
        finally:
            os.close(descriptor)

    def drop(self, index: int) -> None:
        """Forget a slot that the worker gave up."""
        self._memory.pop(index, None)

    def close(self) -> None:
        """Forget all slots; arrays in them stay valid."""
        self._memory = {}

    def free(self, index: int) -> None:
        """Mark a slot as free."""
        self._status.slots[index] = FREE

    def view(self, index: int, n_bytes: int) -> NDArray[np.uint8]:
        """Return uint8[n_bytes], the content of a slot, writable; the slot is free when no view of this is alive.

        If the caller holds `MAX_HELD` slots, this is a copy in ordinary memory, because each slot needs a descriptor.
        """
        memory = self._memory[index]
        # All views of an array hold on to the innermost array, whose base is no array: when it dies, all are dead.
        whole = np.frombuffer(memory, np.uint8, n_bytes)
        if len(self._held) >= MAX_HELD:
            copy = _aligned_copy(whole)
            self.free(index)
            return copy
        lease = _Lease(self._status, index)
        self._held.add(lease)
        weakref.finalize(whole, lease.end, self._held).atexit = False
        return whole


class _Lease:
    """Lasts while arrays in a slot are alive."""

    __slots__ = ("_forks", "_index", "_process", "_status")

    def __init__(self, status: WorkerStatus, index: int) -> None:
        self._status = status
        self._index = index
        self._process = os.getpid()
        self._forks = _FORKS[0]

    def end(self, held: set[object]) -> None:
        """Mark the slot as free, or as gone if a forked child may have arrays in it."""
        if os.getpid() == self._process:  # arrays that die in a child may be alive in its parent
            held.discard(self)
            self._status.slots[self._index] = FREE if self._forks == _FORKS[0] else GONE


_FORKS = [0]


def _count_fork() -> None:
    _FORKS[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


def _aligned_copy(content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    memory = buffers.empty(len(content) + ALIGNMENT)
    first = -memory.ctypes.data % ALIGNMENT
    copy = memory[first : first + len(content)]
    copy[:] = content
    return copy


def _size_class(n_bytes: int) -> int:
    step = max(4096, 1 << max(0, n_bytes.bit_length() - _SIZES_PER_DOUBLING.bit_length()))
    return -(-n_bytes // step) * step
