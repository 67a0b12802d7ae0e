"""Prefetch in worker processes, for transforms that are slow in Python."""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
import sys
import weakref
from collections.abc import Iterator

from dataformats.errors import WorkerError
from dataformats.loaders.prefetcher import BatchTask, BuildBatch, BuiltBatch
from dataformats.loaders.processes.pool import Arrival, WorkerPool
from dataformats.loaders.processes.remote_error import RemoteError
from dataformats.loaders.watchdog import Watchdog, WorkerProgress
from dataformats.storage.descriptors import DESCRIPTORS


class ProcessPrefetcher:
    """A `Prefetcher` whose workers are processes; arrays of a batch are views of shared memory.

    How workers are started: `None` is `"forkserver"` on Linux and `"spawn"` elsewhere, because both start from a
    process with one thread and no locks. A `"fork"` of a program with threads (torch and this package start some)
    copies locks that a thread holds, and no thread in the child releases them. Under `"spawn"` and `"forkserver"` the
    builder is pickled, once for all workers. Under `"fork"` it is not: workers inherit it, including lambdas, which is
    the reason to choose `"fork"`.

    The first `start` starts the workers. They stay for later ones, and end with `close`, with this object, with the
    process, or when one of them dies. The prefetcher has no thread: `take` does its work. For one thread at a time.

    Args:
        build: Builds batches.
        n_workers: Number of processes.
        prefetch: Batches that each worker builds ahead.
        prefetch_bytes: Limit of their bytes, over all workers; one batch is always under way.
        start_method: `"spawn"`, `"forkserver"`, `"fork"` or `None`.
        hang_timeout_s: Seconds of rest after which a worker is killed, see `Watchdog`; `math.inf`: never.
    """

    def __init__(
        self,
        build: BuildBatch,
        n_workers: int,
        *,
        prefetch: int = 2,
        prefetch_bytes: int = 2**30,
        start_method: str | None = None,
        hang_timeout_s: float = 60.0,
    ) -> None:
        self._build = build
        self._n_workers = n_workers
        self._prefetch = prefetch
        self._prefetch_bytes = prefetch_bytes
        self._method = _checked_method(start_method)
        self._hang_timeout_s = hang_timeout_s
        self._pool: WorkerPool | None = None
        self._tasks: Iterator[BatchTask] | None = None
        self._unsent: BatchTask | None = None  # the next task, if the workers had no room for it
        self._sent: dict[int, BatchTask] = {}  # not taken yet, by number; `start` does not reset the numbers
        self._arrivals: dict[int, Arrival] = {}  # not taken yet, by number
        self._first = self._next = 0  # numbers of the first task since `start`, and of the next one to be taken
        self._largest = 0  # bytes of the largest batch so far

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks, which may be endless; batches of earlier tasks are discarded.

        Raises:
            WorkerError: The workers cannot be started.
            OSError: No memory, process or descriptor is left.
        """
        if self._pool is None or not self._pool.is_owner:
            self._start_pool()
        assert self._pool is not None  # tells the type checker
        try:
            self._discard_tasks(self._pool)
            self._tasks = iter(tasks)
            self._send_tasks(self._pool)
        except BaseException:
            self.close()
            raise

    def take(self) -> BuiltBatch:
        """Return the next batch, waiting for it.

        Raises:
            StopIteration: No task is left.
            WorkerError: A worker died or hangs, or raised an exception that cannot be pickled.
            OSError: No memory is left for a batch.
            Exception: Building the batch raised it; the prefetcher must be started again.
        """
        pool = self._pool
        if pool is None or self._tasks is None or not pool.is_owner:
            raise WorkerError("not started in this process, or failed earlier. Call start() first")
        try:
            while self._receive(pool, 0.0):  # each call takes one message of a worker
                pass
            n_ready = len(self._arrivals)
            arrival = self._next_arrival(pool)
            result: BuiltBatch | RemoteError | None = None if arrival is None else pool.load(arrival)
            self._send_tasks(pool)
        except BaseException:  # including Ctrl-C: half of a message may have been read
            self.close()
            raise
        if arrival is None or result is None:
            raise StopIteration
        if isinstance(result, RemoteError):
            self._discard_tasks(pool)
            raise result.exception(arrival.worker)
        result.n_ready = n_ready
        return result

    def close(self) -> None:
        """End all processes; may be called twice. Batches that were taken stay valid."""
        pool, self._pool, self._tasks = self._pool, None, None
        self._sent, self._arrivals, self._unsent = {}, {}, None
        if pool is not None:
            self._finalizer.detach()
            pool.close()

    def _start_pool(self) -> None:
        if multiprocessing.current_process().daemon:
            problem = "cannot be started: this process is a daemon of multiprocessing, which may have no children"
            raise WorkerError(f"{problem}. Remedy: worker_type='thread'", worker=0)
        DESCRIPTORS.close_spare()  # each worker needs some
        n_under_way = self._n_workers * self._prefetch
        pool = WorkerPool(self._build, self._n_workers, n_under_way, self._prefetch + 1, self._method)
        self._finalizer = weakref.finalize(self, pool.close)  # if close() is not called
        self._pool = pool

    def _discard_tasks(self, pool: WorkerPool) -> None:
        """Take back all tasks, and discard their batches."""
        pool.recall_tasks()
        self._first = self._next = self._next + len(self._sent)
        self._sent, self._unsent, self._tasks = {}, None, None
        for arrival in self._arrivals.values():
            pool.discard(arrival)
        self._arrivals = {}
        while self._receive(pool, 0.0):  # else their slots would never be freed
            pass

    def _send_tasks(self, pool: WorkerPool) -> None:
        """Send tasks while there is room for their batches."""
        while self._has_room():
            task = self._unsent if self._unsent is not None else next(self._tasks or iter(()), None)
            if task is None:
                return
            self._unsent = task
            number = self._next + len(self._sent)
            if not pool.send_task(number, task):
                return
            self._sent[number], self._unsent = task, None

    def _has_room(self) -> bool:
        n_sent = len(self._sent)
        if not n_sent:
            return True
        if not self._largest:  # the first batch shows how large batches are
            return n_sent < self._n_workers
        n_under_way = n_sent - len(self._arrivals) + 1
        n_bytes = sum(arrival.n_bytes for arrival in self._arrivals.values()) + n_under_way * self._largest
        return n_sent < self._n_workers * self._prefetch and n_bytes <= self._prefetch_bytes

    def _next_arrival(self, pool: WorkerPool) -> Arrival | None:
        """Return the next batch in order, waiting for it, or `None` if no task is left."""
        if self._next not in self._arrivals and not self._wait(pool):
            return None
        del self._sent[self._next]
        self._next += 1
        return self._arrivals.pop(self._next - 1)

    def _wait(self, pool: WorkerPool) -> bool:
        """Wait for the next batch in order; return False if no task is left."""
        watchdog = Watchdog(
            lambda: _progress(pool), self._describe, self._hang_timeout_s, consequence="; it was killed"
        )
        while self._next not in self._arrivals:
            self._send_tasks(pool)
            if self._next not in self._sent and self._unsent is None:
                return False
            self._receive(pool, watchdog.interval_s)
            watchdog.check()
        return True

    def _receive(self, pool: WorkerPool, timeout_s: float) -> bool:
        """Store what arrives within this time; return False if nothing does."""
        arrivals = pool.wait(timeout_s, self._describe)
        for arrival in arrivals:
            if arrival.number < self._first:
                pool.discard(arrival)
            else:
                self._arrivals[arrival.number] = arrival
                self._largest = max(self._largest, arrival.n_bytes)
        return bool(arrivals)

    def _describe(self, worker: int) -> str | None:
        """Return what a worker is working on; `None` for nothing."""
        assert self._pool is not None  # tells the type checker
        status = self._pool.statuses[worker]
        number, position = status.number, status.position
        if number is None:
            return None
        if position is not None:
            with contextlib.suppress(Exception):  # an error here must not hide the one that is being described
                return self._build.describe(position)
        task = self._sent.get(number)
        return f"positions {task.positions[0]} to {task.positions[-1]}" if task and len(task.positions) else None


def _progress(pool: WorkerPool) -> list[WorkerProgress]:
    return [
        WorkerProgress(number, status.ticks, status.number is not None, process)
        for number, (status, process) in enumerate(zip(pool.statuses, pool.processes, strict=True))
    ]


def _checked_method(start_method: str | None) -> str:
    known = multiprocessing.get_all_start_methods()
    if not hasattr(socket, "send_fds") or not hasattr(select, "poll"):
        raise WorkerError("worker processes need a Unix system. Remedy: worker_type='thread'", worker=0)
    if start_method is None:
        return "forkserver" if sys.platform == "linux" and "forkserver" in known else "spawn"
    if start_method not in known:
        raise ValueError(f"start_method: expected None or one of {known}, found {start_method!r}")
    return start_method
