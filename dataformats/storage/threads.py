"""Pools of threads, one of each kind a process; which threads share the work of large batches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from dataformats.fork_hooks import after_fork
from dataformats.kernels import helpers_open

__all__ = ["N_THREADS", "Pool", "declare_readers", "helpers", "processors", "submit"]

N_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""The processors that this process may use."""

_MOST_HELPERS = 7  # more would wait for the same memory

P = ParamSpec("P")
T = TypeVar("T")


def declare_readers(n_readers: int) -> None:
    """Say that this thread is one of so many that read at the same time, each with its part of the processors.

    To wake others in the middle of a batch costs more than it gives where those have batches of their own to read.
    """
    _OF_THREAD.readers = n_readers


def processors() -> int:
    """Return how many threads may do the work of this one."""
    return max(1, N_THREADS // getattr(_OF_THREAD, "readers", 1))


def helpers() -> tuple[Any, int]:
    """Return the threads that help kernels with large batches, and how many may do the work of this one, it included.

    `None` and 1 where there are none, or all have work of their own.
    """
    n = processors()
    return (_HELPERS.opened(), n) if n > 1 else (None, 1)


def submit(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
    """Have work done by a thread of the pool. It must not wait for other work of the pool."""
    return _POOL.executor().submit(work, *arguments, **named)


class Pool:
    """Threads that are started at first use, and again in a forked child.

    Args:
        n_threads: At most so many.
        name: What their names begin with.
    """

    def __init__(self, n_threads: int, name: str) -> None:
        self._n_threads = n_threads
        self._name = name
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._executor, self._lock = None, threading.Lock()

    def executor(self) -> ThreadPoolExecutor:
        """Return what takes their work."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._n_threads, thread_name_prefix=self._name)
            return self._executor


class _Helpers:
    """Threads of the kernels, opened at first use, and again in a forked child."""

    def __init__(self) -> None:
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._opened: Any = None

    def opened(self) -> Any:
        if self._opened is None:
            try:
                self._opened = helpers_open(min(N_THREADS - 1, _MOST_HELPERS))
            except OSError:
                return None
        return self._opened


_POOL = Pool(N_THREADS, "dataformats-batch")
_HELPERS = _Helpers()
_OF_THREAD = threading.local()
