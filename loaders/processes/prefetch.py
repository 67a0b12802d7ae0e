"""ProcessFeed: batches made by worker processes, for transforms that are heavy in Python."""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
import sys
import weakref
from collections.abc import Iterator

from dataformats.errors import WorkerError
from dataformats.loaders.prefetch import BatchTask, BuildBatch, BuiltBatch
from dataformats.loaders.processes.pool import Arrival, WorkerPool
from dataformats.loaders.processes.remote_error import RemoteError
from dataformats.loaders.processes.watchdog import Watchdog

__all__ = ["ProcessPrefetcher"]


class ProcessPrefetcher:
    """Makes batches in worker processes; they come in shared memory, as arrays that are views of it.

    How workers are started: `None` takes `"forkserver"` on Linux and `"spawn"` elsewhere, because both begin with a
    process that has one thread and no locks. A `"fork"` of a program with threads (torch starts some, and so do we)
    copies locks that some thread holds, which nobody opens in the child. Under `"spawn"` and `"forkserver"` what makes
    batches is pickled, once for all workers. Under `"fork"` it is not: workers get it as it is, with lambdas and all,
    which is what one takes `"fork"` for.

    The workers are started by the first `start`, stay for later ones, and end with `close`, with this object, with the
    process, or when one of them dies. The feed has no thread: `take` does its work. For one thread at a time.

    Args:
        make: What makes batches.
        n_workers: Processes.
        prefetch: Batches ahead, per worker.
        prefetch_bytes: Their bytes at most, over all workers; one is always under way.
        start_method: `"spawn"`, `"forkserver"`, `"fork"` or `None`.
        hang_timeout_s: After so many seconds without progress a worker is killed; `math.inf`: never.
    """

    def __init__(
        self,
        make: BuildBatch,
        n_workers: int,
        *,
        prefetch: int = 2,
        prefetch_bytes: int = 2**30,
        start_method: str | None = None,
        hang_timeout_s: float = 60.0,
    ) -> None:
        self._make = make
        self._n_workers = n_workers
        self._prefetch = prefetch
        self._prefetch_bytes = prefetch_bytes
        self._method = _method(start_method)
        self._hang_timeout_s = hang_timeout_s
        self._pool: WorkerPool | None = None
        self._tasks: Iterator[BatchTask] | None = None
        self._waiting: BatchTask | None = None  # it found no room among the tasks of the workers
        self._sent: dict[int, BatchTask] = {}  # not taken yet, by number; numbers go on over all starts
        self._here: dict[int, Arrival] = {}
        self._first = self._next = 0  # numbers of the first task since `start`, and of the next to be taken
        self._largest = 0

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks, which need not end; what was made of others and not taken is forgotten.

        Raises:
            WorkerError: The workers cannot be started.
            OSError: No memory, process or descriptor is left.
        """
        if self._pool is None or not self._pool.is_mine:
            self._begin()
        assert self._pool is not None  # for the type checker
        try:
            self._forget(self._pool)
            self._tasks = iter(tasks)
            self._top_up(self._pool)
        except BaseException:
            self.close()
            raise

    def take(self) -> BuiltBatch:
        """Return the next batch, waiting for it.

        Raises:
            StopIteration: No task is left.
            WorkerError: A worker died or hangs, or raised what cannot be pickled.
            OSError: No memory is left for a batch.
            Exception: What making the batch raised; the feed must be started again.
        """
        pool = self._pool
        if pool is None or self._tasks is None or not pool.is_mine:
            raise WorkerError("not started in this process, or failed before: start() comes first")
        try:
            arrival = self._awaited(pool)
            made: BuiltBatch | RemoteError | None = None if arrival is None else pool.opened(arrival)
            self._top_up(pool)
        except BaseException:  # also Ctrl-C: a message may have been read halfway
            self.close()
            raise
        if arrival is None or made is None:
            raise StopIteration
        if isinstance(made, RemoteError):
            self._forget(pool)
            raise made.error(arrival.worker)
        return made

    def close(self) -> None:
        """End all processes; may be called twice. Batches that were taken stay valid."""
        pool, self._pool, self._tasks = self._pool, None, None
        self._sent, self._here, self._waiting = {}, {}, None
        if pool is not None:
            self._finalizer.detach()
            pool.end()

    def _begin(self) -> None:
        if multiprocessing.current_process().daemon:
            what = "cannot be started: this process is a daemon of multiprocessing, which may have no children"
            raise WorkerError(f"{what}. Remedy: worker_type='thread'", worker=0)
        n_under_way = self._n_workers * self._prefetch
        pool = WorkerPool(self._make, self._n_workers, n_under_way, self._prefetch + 1, self._method)
        self._finalizer = weakref.finalize(self, pool.end)  # without close(), and when the interpreter ends
        self._pool = pool

    def _forget(self, pool: WorkerPool) -> None:
        """Take back all tasks, and let go of what was made of them."""
        pool.withdraw()
        self._first = self._next = self._next + len(self._sent)
        self._sent, self._waiting, self._tasks = {}, None, None
        for arrival in self._here.values():
            pool.forget(arrival)
        self._here = {}
        while self._keep(pool, 0.0):  # or slots would gather that nobody sets free
            pass

    def _top_up(self, pool: WorkerPool) -> None:
        """Send tasks as long as there is room for their batches."""
        while self._has_room():
            task = self._waiting if self._waiting is not None else next(self._tasks or iter(()), None)
            if task is None:
                return
            self._waiting = task
            number = self._next + len(self._sent)
            if not pool.give(number, task):
                return
            self._sent[number], self._waiting = task, None

    def _has_room(self) -> bool:
        n_sent = len(self._sent)
        if not n_sent:
            return True
        if not self._largest:  # how large batches are shows with the first
            return n_sent < self._n_workers
        n_under_way = n_sent - len(self._here) + 1
        n_bytes = sum(arrival.n_bytes for arrival in self._here.values()) + n_under_way * self._largest
        return n_sent < self._n_workers * self._prefetch and n_bytes <= self._prefetch_bytes

    def _awaited(self, pool: WorkerPool) -> Arrival | None:
        """Return the next batch in order, or `None` when no task is left."""
        patience = Watchdog(pool.statuses, self._hang_timeout_s)
        self._keep(pool, 0.0)
        while self._next not in self._here:
            self._top_up(pool)
            if self._next not in self._sent and self._waiting is None:
                return None
            self._keep(pool, patience.look_s)
            patience.look(self._about)
        del self._sent[self._next]
        self._next += 1
        return self._here.pop(self._next - 1)

    def _keep(self, pool: WorkerPool, timeout_s: float) -> bool:
        """Keep what has arrived, or arrives in this time; return False where nothing has."""
        arrivals = pool.wait(timeout_s, self._about)
        for arrival in arrivals:
            if arrival.number < self._first:
                pool.forget(arrival)
            else:
                self._here[arrival.number] = arrival
                self._largest = max(self._largest, arrival.n_bytes)
        return bool(arrivals)

    def _about(self, worker: int) -> str | None:
        """Return what a worker is about; `None` where that is nothing."""
        assert self._pool is not None  # for the type checker
        row = self._pool.statuses[worker]
        number, position = row.number, row.position
        if number is None:
            return None
        if position is not None:
            with contextlib.suppress(Exception):  # a failing description must not hide what it should describe
                return self._make.describe(position)
        task = self._sent.get(number)
        return f"positions {task.positions[0]} to {task.positions[-1]}" if task and len(task.positions) else None


def _method(asked: str | None) -> str:
    known = multiprocessing.get_all_start_methods()
    if not hasattr(socket, "send_fds") or not hasattr(select, "poll"):
        raise WorkerError("worker processes need a Unix system. Remedy: worker_type='thread'", worker=0)
    if asked is None:
        return "forkserver" if sys.platform == "linux" and "forkserver" in known else "spawn"
    if asked not in known:
        raise ValueError(f"start_method: expected None or one of {known}, found {asked!r}")
    return asked
