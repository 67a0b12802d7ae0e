"""Thread pools, and each thread's share of the processors."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from dataformats.fork_hooks import after_fork
from dataformats.kernels import thread_pool_open
from dataformats.storage.read_context import READ_CONTEXT

N_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""The processors that this process may use."""

_MAX_KERNEL_THREADS = 7  # more would wait for the same memory
_MAP_THREADS = 16
_MAX_SERIAL = 64  # starting threads costs as much as this many reads from a warm disk

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


def declare_readers(n_readers: int, *, processes: bool = False) -> None:
    """Declare that this thread is one of `n_readers` concurrent readers, so that each uses its share of processors.

    Waking other threads in the middle of a batch costs more than it gains if those read batches of their own.

    Args:
        n_readers: The number of concurrent readers.
        processes: True if each reader is a separate process.
    """
    READ_CONTEXT.n_readers = n_readers
    if processes:
        _SHARED.n_processes = n_readers


def processors() -> int:
    """Return how many threads may work on a batch of this thread: at least 1."""
    return max(1, N_THREADS // READ_CONTEXT.n_readers)


def kernel_threads() -> tuple[Any, int]:
    """Return the thread pool of the kernels, and how many threads may work on a batch, the caller included.

    Returns `(None, 1)` if there is no pool or all processors are in use.
    """
    n = processors()
    return (_KERNEL_THREADS.opened(), n) if n > 1 else (None, 1)


def submit(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
    """Run `work` in a thread of the shared pool. It must not wait for other work in that pool."""
    return _POOL.executor().submit(work, *arguments, **named)


def for_each(work: Callable[[int], None], n: int) -> None:
    """Call `work` with each number in `[0, n)`, in this thread and in others, on all processors of this process.

    Several threads may do so at once: they share the processors, and a thread that has finished leaves its processor
    to the others.

    Args:
        work: Computes without the GIL for the most part; thread-safe. An exception is raised here after the last call
            has ended; the lowest number's wins, and numbers above it may be left out.
        n: The number of calls.
    """
    _SHARED.run(_CallGroup(work, n))


class _CallGroup:
    """The calls of one `for_each`."""

    def __init__(self, work: Callable[[int], None], n: int) -> None:
        self._work = work
        self._todo = deque(range(n))
        self._n_begun = 0
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._failed: list[tuple[int, BaseException]] = []

    def __len__(self) -> int:
        return len(self._todo)

    def step(self) -> bool:
        """Make one call; return False if none is left."""
        with self._lock:
            if not self._todo:
                return False
            number = self._todo.popleft()
            self._n_begun += 1
        try:
            self._work(number)
        except BaseException as error:
            with self._lock:
                self._failed.append((number, error))
                self._todo.clear()
        with self._lock:
            self._n_begun -= 1
            self._ended.notify_all()
        return True

    def finish(self) -> None:
        """Wait for the calls in other threads, and raise the error of one of all calls."""
        with self._lock:
            self._ended.wait_for(lambda: not self._n_begun)
        if self._failed:
            raise min(self._failed, key=lambda one: one[0])[1]


class _SharedWork:
    """The jobs in progress, and the threads that work on them: at most one for each processor, besides the callers."""

    def __init__(self) -> None:
        self.n_processes = 1
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[_CallGroup] = []
        self._n_working = 0

    def run(self, job: _CallGroup) -> None:
        """Do a job, with the help of other threads."""
        with self._lock:
            self._jobs.append(job)
            self._n_working += 1
        try:
            self._recruit()
            while job.step():
                pass
        finally:
            with self._lock:
                self._jobs.remove(job)
                self._n_working -= 1
            self._recruit()
        job.finish()

    def _recruit(self) -> None:
        """Start threads for the calls that are left, while there are processors."""
        with self._lock:
            n_left = sum(map(len, self._jobs))
            n = max(0, min(self._most() - self._n_working, n_left))
            self._n_working += n
        for begun in range(n):
            try:
                submit(self._help)
            except RuntimeError:  # the interpreter ends: the callers do all work
                with self._lock:
                    self._n_working -= n - begun
                return

    def _help(self) -> None:
        helps = True
        while helps:
            job = next(iter([job for job in self._jobs if len(job)]), None)
            helps = job is not None and job.step()
            with self._lock:
                helps = helps and self._n_working <= self._most()
                self._n_working -= not helps

    def _most(self) -> int:
        return max(1, N_THREADS // self.n_processes)


def concurrent_map(function: Callable[[Item], Result], items: Sequence[Item], *, local: bool) -> list[Result]:
    """Return `[function(item) for item in items]`, many at once, so that a slow disk or server is waited for once.

    Args:
        function: A short read; thread-safe. Its exceptions are raised here.
        items: The arguments.
        local: True if it reads from the local disk: a few items then need no threads.
    """
    if len(items) <= (_MAX_SERIAL if local else 1):
        return [function(item) for item in items]
    # Several items per task: submitting each one would cost more than a warm read.
    step = -(-len(items) // (4 * _MAP_THREADS)) if local else 1
    tasks = [items[first : first + step] for first in range(0, len(items), step)]
    with ThreadPoolExecutor(min(_MAP_THREADS, len(tasks))) as threads:
        results = threads.map(lambda task: [function(item) for item in task], tasks)
        return [result for part in results for result in part]


def threads_for(n_files: int, *, local: bool) -> ThreadPoolExecutor:
    """Return threads that read whole tables or files: one for each processor, or many that wait for a server."""
    return ThreadPoolExecutor(max(1, min(n_files, (os.cpu_count() or 1) if local else _MAP_THREADS)))


class ThreadPool:
    """A thread pool that starts at first use, and again in a forked child.

    Args:
        n_threads: The most threads.
        name: The prefix of their names.
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
        """Return the running executor."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._n_threads, thread_name_prefix=self._name)
            return self._executor


class _KernelThreads:
    """The native thread pool: opened at first use, and again in a forked child."""

    def __init__(self) -> None:
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._pool: Any = None

    def opened(self) -> Any:
        if self._pool is None:
            try:
                self._pool = thread_pool_open(min(N_THREADS - 1, _MAX_KERNEL_THREADS))
            except OSError:
                return None
        return self._pool


_POOL = ThreadPool(N_THREADS, "dataformats-batch")
_KERNEL_THREADS = _KernelThreads()
_SHARED = _SharedWork()
