"""Array memory; large buffers are reused after garbage collection.

Memory that the allocator returns to the operating system comes back cleared, page by page, while it is filled, which
costs more than the copy into it. glibc keeps some megabytes of freed memory, so that one array of 2 MB after the other
costs nothing; but two in turn, bytes read and a column made from them, are returned and faulted in each time: 1,028
page faults a batch of 256 records of 9 KB, and 2.1 ms of processor time instead of 0.9 ms (measured).
"""

from __future__ import annotations

import contextlib
import math
import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGE = 2**19
_KEPT = 256 * 2**20  # free memory, of all sizes together
_CLASSES = 8  # sizes for each doubling: reused memory is at most an eighth too large


def empty(*shape: int) -> NDArray[np.uint8]:
    """Return uint8 of this shape, uninitialized and writable. It is not reused while it or a view of it lives."""
    n_bytes = math.prod(shape)
    if n_bytes < _LARGE:
        return np.empty(shape, np.uint8)
    return _POOL.take(n_bytes).reshape(shape)


def rows(dtype: np.dtype[Any], inner: tuple[int, ...]) -> Callable[[int], NDArray[Any]]:
    """Return a function from n to an uninitialized array (n, *inner) of a dtype, in memory from `empty`."""
    width = dtype.itemsize * math.prod(inner)

    def make(n: int) -> NDArray[Any]:
        if n * width < _LARGE:
            return np.empty((n, *inner), dtype)
        return _POOL.take(n * width).view(dtype).reshape(n, *inner)

    return make


class _Pool:
    """Free mappings, by size. Thread-safe, because it uses only atomic operations of lists."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def take(self, n_bytes: int) -> NDArray[np.uint8]:
        size = _size_class(n_bytes)
        memory = self._pop(size)
        if memory is None:
            size = _size_class(size + 1)
            memory = self._pop(size)  # the last batch of an epoch is a little smaller than the others
        if memory is None:
            size = _size_class(n_bytes)
            memory = _mapping(size)
        # All views keep the first ndarray over a buffer alive: when it dies, no view is left.
        array = np.frombuffer(memory, np.uint8, n_bytes)
        weakref.finalize(array, self._give_back, size, memory).atexit = False
        return array

    def _pop(self, size: int) -> mmap.mmap | None:
        free = self._free.get(size)
        try:
            return free.pop() if free else None
        except IndexError:  # another thread was faster
            return None

    def _give_back(self, size: int, memory: mmap.mmap) -> None:
        if size > _KEPT:
            return
        self._free.setdefault(size, []).append(memory)
        excess = sum(size * len(free) for size, free in list(self._free.items())) - _KEPT
        for other in [*(set(self._free) - {size}), size]:  # sizes may have changed
            while excess > 0 and self._pop(other) is not None:
                excess -= other


def _mapping(size: int) -> mmap.mmap:
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, size, **private)  # shared memory would have no huge pages
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _size_class(n_bytes: int) -> int:
    step = 1 << max(0, n_bytes.bit_length() - 1 - _CLASSES.bit_length() + 1)
    return -(-n_bytes // step) * step


_POOL = _Pool()
