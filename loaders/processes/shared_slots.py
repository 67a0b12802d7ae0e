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
from dataformats.loaders.processes.serialize import ALIGNMENT
from dataformats.loaders.processes.shared_memory import anonymous, explained
from dataformats.loaders.processes.status import FREE, GONE, HELD, WorkerStatus

__all__ = ["MOST_HELD", "SlotReader", "SlotWriter", "WritableSlot"]

_SMALLEST = 2**16
_CLASSES = 8  # sizes for each doubling: batches that differ a little fit the slots of one another
MOST_HELD = 24
"""Slots that the caller may keep; each takes a descriptor, and a worker knows only so many."""


@dataclass(slots=True)
class WritableSlot:
    """A slot that is to be filled and handed over.

    Attributes:
        index: Which of the worker's slots.
        size: Its bytes.
        memory: The bytes, to be written.
        descriptor: The memory where it is new, else `None`; whoever gets this closes it.
        dropped: A slot that the worker has given up with this one, or -1.
    """

    index: int
    size: int
    memory: mmap.mmap
    descriptor: int | None
    dropped: int


class SlotWriter:
    """The slots of this worker.

    Args:
        row: Says which of them are in use.
        n_kept: Slots that may lie unused.
    """

    def __init__(self, row: WorkerStatus, n_kept: int) -> None:
        self._row = row
        self._n_kept = n_kept
        self._memory: dict[int, mmap.mmap] = {}

    def take(self, n_bytes: int) -> WritableSlot:
        """Return a slot with room for this many bytes, which is in use from now on.

        Raises:
            OSError: There is no memory for another one.
        """
        states = self._row.slots
        for index in [index for index in self._memory if states[index] == GONE]:
            self._drop(index)
        free = sorted((len(memory), index) for index, memory in self._memory.items() if states[index] == FREE)
        fitting = [index for size, index in free if size >= n_bytes]
        dropped = -1
        if len(free) > self._n_kept or (free and not fitting):
            dropped = free[0][1] if not fitting or fitting[0] != free[0][1] else free[-1][1]
            self._drop(dropped)
        descriptor = None
        if fitting:
            index = fitting[0]
        else:
            index, descriptor = self._make(n_bytes)
        states[index] = HELD
        memory = self._memory[index]
        return WritableSlot(index, len(memory), memory, descriptor, dropped)

    def _drop(self, index: int) -> None:
        self._memory.pop(index).close()
        self._row.slots[index] = FREE

    def _make(self, n_bytes: int) -> tuple[int, int]:
        unused = set(range(len(self._row.slots))).difference(self._memory)
        if not unused:
            raise RuntimeError(f"all {len(self._memory)} slots are in use: the feed has lost count of them")
        index = min(unused)
        size = _size_class(max(n_bytes, _SMALLEST))
        descriptor = anonymous(size)
        try:
            self._memory[index] = mmap.mmap(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise explained(error, size) from error
        return index, descriptor


class SlotReader:
    """The slots of one worker, as the process sees them that takes its batches.

    Args:
        row: Where a slot is said to be free again.
        held: The slots of all workers whose arrays somebody has, shared by the windows of a feed.
    """

    def __init__(self, row: WorkerStatus, held: set[object]) -> None:
        self._row = row
        self._held = held
        self._memory: dict[int, mmap.mmap] = {}

    def add(self, index: int, size: int, descriptor: int) -> None:
        """Map a slot that is new; closes the descriptor.

        Raises:
            OSError: There is no memory, or no descriptor, for it.
        """
        try:
            self._memory[index] = mmap.mmap(descriptor, size)
        except OSError as error:
            raise explained(error, size) from error
        finally:
            os.close(descriptor)

    def drop(self, index: int) -> None:
        """Forget a slot that the worker has given up."""
        self._memory.pop(index, None)

    def close(self) -> None:
        """Forget all slots; arrays in them stay valid."""
        self._memory = {}

    def free(self, index: int) -> None:
        """Say that nobody will look at what is in a slot."""
        self._row.slots[index] = FREE

    def look(self, index: int, n_bytes: int) -> NDArray[np.uint8]:
        """Return uint8[n_bytes], what is in a slot, writable; it is used again once no view of this lives.

        A caller who keeps many gets copies in memory of his own, because each slot takes a descriptor.
        """
        memory = self._memory[index]
        # An ndarray over something else than an ndarray is what all its views hold on to: when it dies, all are dead.
        whole = np.frombuffer(memory, np.uint8, n_bytes)
        if len(self._held) >= MOST_HELD:
            copy = _aligned(n_bytes)
            copy[:] = whole
            self.free(index)
            return copy
        lease = _Lease(self._row, index)
        self._held.add(lease)
        weakref.finalize(whole, lease.end, self._held).atexit = False
        return whole


class _Lease:
    """That somebody has arrays in a slot."""

    __slots__ = ("_forks", "_index", "_process", "_row")

    def __init__(self, row: WorkerStatus, index: int) -> None:
        self._row = row
        self._index = index
        self._process = os.getpid()
        self._forks = _FORKS[0]

    def end(self, held: set[object]) -> None:
        """Say that the slot is free, or gone where a forked child may still look at it."""
        if os.getpid() == self._process:  # what a child lets go, its parent may still have
            held.discard(self)
            self._row.slots[self._index] = FREE if self._forks == _FORKS[0] else GONE


_FORKS = [0]


def _count_fork() -> None:
    _FORKS[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


def _aligned(n_bytes: int) -> NDArray[np.uint8]:
    memory = buffers.empty(n_bytes + ALIGNMENT)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + n_bytes]


def _size_class(n_bytes: int) -> int:
    step = max(4096, 1 << max(0, n_bytes.bit_length() - _CLASSES.bit_length()))
    return -(-n_bytes // step) * step
