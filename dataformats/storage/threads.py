"""Pools of threads, one of each kind a process; which threads share the work of large batches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import ParamSpec, TypeVar

from dataformats.storage.forks import after_fork

__all__ = ["Pool", "in_parallel", "n_threads", "one_of", "submit", "use_threads"]

_N_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

P = ParamSpec("P")
T = TypeVar("T")


def n_threads() -> int:
    """Return how many threads may share the work of a batch: the processors of this process, or this thread's part."""
    return max(1, _n_threads // getattr(_OF_THREAD, "n_readers", 1))


def use_threads(n: int) -> None:
    """Let `n` threads share the work of a batch from now on: this process is one of many that read."""
    global _n_threads
    _n_threads = n


def one_of(n_readers: int) -> None:
    """Say that this thread is one of so many of this process that read at the same time.

    To wake others in the middle of a batch costs more than it gives where those have batches of their own to read.
    """
    _OF_THREAD.n_readers = n_readers


_n_threads = _N_PROCESSORS
_OF_THREAD = threading.local()


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


_POOL = Pool(_N_PROCESSORS, "dataformats-batch")
