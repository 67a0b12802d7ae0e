"""Pools of threads, one of each kind a process; which threads share the work of large batches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import ParamSpec, TypeVar

from dataformats.storage.forks import after_fork

__all__ = ["N_THREADS", "Pool", "in_parallel", "one_of", "processors", "submit"]

N_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""The processors that this process may use."""

P = ParamSpec("P")
T = TypeVar("T")


def one_of(n_readers: int) -> None:
    """Say that this thread is one of so many that read at the same time, each with its part of the processors.

    To wake others in the middle of a batch costs more than it gives where those have batches of their own to read.
    """
    _OF_THREAD.readers = n_readers


def processors() -> int:
    """Return how many threads may do the work of this one."""
    return max(1, N_THREADS // getattr(_OF_THREAD, "readers", 1))


def in_parallel(work: Callable[[T], bool], shares: Sequence[T]) -> bool:
    """Do all shares, the first in this thread and the others in those of the pool; return True where all did well."""
    pending: list[Future[bool]] = []
    done: list[bool] = []
    try:
        with suppress(RuntimeError):  # no thread can be had, or the interpreter is ending: all is done here
            pending.extend(_POOL.executor().submit(work, share) for share in shares[1:])
        done.extend(work(share) for share in (*shares[:1], *shares[1 + len(pending) :]))
    finally:
        wait(pending)  # whatever happens here, they may still be writing
    return all(done) and all(future.result() for future in pending)


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


_POOL = Pool(N_THREADS, "dataformats-batch")
_OF_THREAD = threading.local()
