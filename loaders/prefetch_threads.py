"""Batches made by threads, ahead of time and in order; or in the caller's own thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from dataformats.errors import WorkerError
from dataformats.loaders.prefetch import BatchTask, BuildBatch, BuiltBatch
from dataformats.storage.threads import declare_readers

__all__ = ["InlinePrefetcher", "ThreadPrefetcher"]

_LOG = logging.getLogger("dataformats")
_LOOK_S = 1.0
_SLOW_S = 5.0
_PATIENCE_S = 1.0


class InlinePrefetcher:
    """Makes a batch when it is asked for; keeps the promise of `Prefetcher`."""

    def __init__(self, make: BuildBatch) -> None:
        self._make = make
        self._tasks: Iterator[BatchTask] = iter(())

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks."""
        self._tasks = tasks

    def take(self) -> BuiltBatch:
        """Return the next batch."""
        return self._make(next(self._tasks), _ignore)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class ThreadPrefetcher:
    """Threads that make batches ahead of time; keeps the promise of `Prefetcher`.

    Args:
        make: Makes a batch; kernels run without the GIL, so that several are made at once.
        n_threads: At least 1.
        prefetch: Batches that a thread is ahead, at least 1.
        prefetch_bytes: No batch is begun while those that wait have as many bytes.
        hang_timeout_s: A batch that makes no progress for so long is given up.
    """

    def __init__(
        self, make: BuildBatch, n_threads: int, *, prefetch: int, prefetch_bytes: int, hang_timeout_s: float
    ) -> None:
        self._make = make
        self._most = n_threads * prefetch
        self._most_bytes = prefetch_bytes
        self._hang_timeout_s = hang_timeout_s
        self._lock = threading.RLock()  # garbage may be collected in a worker that holds it, and close the feed
        # Who waits says so under the lock, and is then told once; being told once too often does no harm. A Condition
        # makes a lock for each wait, and these queues can be put to wherever garbage is collected.
        self._room: SimpleQueue[None] = SimpleQueue()  # what tells workers to look again
        self._done: SimpleQueue[None] = SimpleQueue()  # what tells the caller
        self._idle = 0  # workers that wait to be told
        self._awaited: _Job | None = None  # what the caller waits for
        self._tasks: Iterator[BatchTask] = iter(())
        self._jobs: deque[_Job] = deque()  # in their order; at most the first is not begun
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"dataformats-loader-{number}", daemon=True)
            for number in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks; batches of others that are being made are not waited for."""
        with self._lock:
            self._tasks = tasks
            self._jobs = deque()
            self._tell_workers(len(self._threads))

    def take(self) -> BuiltBatch:
        """Return the next batch.

        Raises:
            StopIteration: No task is left.
            WorkerError: It makes no progress.
        """
        with self._lock:
            job = self._jobs[0] if self._jobs else self._begin(None)
            if job is None:
                raise StopIteration
            is_made = job.is_done
            if not is_made:
                self._awaited = job
        if not is_made:
            self._wait_for(job)
        with self._lock:
            if self._closed:  # perhaps behind its end: the jobs are gone
                raise RuntimeError("the loader was closed while a batch was waited for")
            self._jobs.popleft()
            self._tell_workers(min(self._idle, 1))
        if job.error is not None:
            raise job.error
        assert job.made is not None
        return job.made

    def _wait_for(self, job: _Job) -> None:
        watch = _Watch(job, self._make, self._hang_timeout_s)
        while not job.is_done and not self._closed:
            try:
                self._done.get(timeout=watch.look_s)
            except Empty:
                watch.look()

    def close(self) -> None:
        """End the threads; one that is inside a function of the caller ends behind it."""
        with self._lock:
            self._closed = True
            self._jobs = deque()
            self._tasks = iter(())
            self._tell_workers(len(self._threads))  # also one that is just about to wait
            self._done.put(None)
        if threading.current_thread() in self._threads:
            return  # a function of the caller, or garbage that is collected there: the others may need what it holds
        stop = time.monotonic() + _PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, stop - time.monotonic()))

    def _work(self, number: int) -> None:
        declare_readers(len(self._threads))
        while True:
            job = self._wait_for_job(number)
            if job is None:
                return
            job.do(self._make)
            with self._lock:
                job.is_done = True
                if self._awaited is job:
                    self._awaited = None
                    self._done.put(None)
            del job  # or its batch would live until the next one is begun

    def _wait_for_job(self, number: int) -> _Job | None:
        """Return a job to do; `None` where the feed is closed."""
        while True:
            with self._lock:
                if self._closed:
                    return None
                job = self._next(number)
                if job is not None:
                    return job
                self._idle += 1
            self._room.get()

    def _tell_workers(self, n: int) -> None:
        """Have so many workers look for a job; where Ctrl-C interrupts this, one more is told next time."""
        for _ in range(n):
            self._room.put(None)
        self._idle = max(0, self._idle - n)

    def _next(self, number: int) -> _Job | None:
        """Return a job to do, where there is one and room for its batch."""
        jobs = self._jobs
        if jobs and jobs[0].worker is None:
            jobs[0].worker = number
            return jobs[0]
        if len(jobs) >= self._most or sum([job.n_bytes for job in jobs]) >= self._most_bytes:
            return None
        return self._begin(number)

    def _begin(self, number: int | None) -> _Job | None:
        """Line up the next task; return `None` where none is left."""
        task = next(self._tasks, None)
        if task is None:
            return None
        job = _Job(task, number)
        self._jobs.append(job)
        if number is None:
            self._tell_workers(min(self._idle, 1))
        return job


@dataclass(slots=True, eq=False)
class _Job:
    """A task, and what became of it.

    Attributes:
        task: What to make.
        worker: The thread that does it; `None`: not yet begun.
        position: What is being read or transformed.
        n_bytes: What its batch holds, once it is made.
    """

    task: BatchTask
    worker: int | None
    position: int | None = None
    n_bytes: int = 0
    made: BuiltBatch | None = None
    error: BaseException | None = None
    is_done: bool = False

    def do(self, make: BuildBatch) -> None:
        try:
            self.made = make(self.task, self._progress)
            self.n_bytes = self.made.n_bytes
        except BaseException as error:  # also what a function of the caller raises to end the program
            self.error = error

    def _progress(self, position: int) -> None:
        self.position = position


class _Watch:
    """Tells work from a hang: a job whose position does not move while it is waited for.

    Attributes:
        look_s: How often to look.
    """

    def __init__(self, job: _Job, make: BuildBatch, timeout_s: float) -> None:
        self._job = job
        self._make = make
        self._timeout_s = timeout_s
        self.look_s = min(_LOOK_S, timeout_s / 4)
        self._position: int | None = None
        self._idle_s = 0.0
        self._looked = time.monotonic()
        self._has_warned = False

    def look(self) -> None:
        """Warn of a job that is slow.

        Raises:
            WorkerError: It has not moved for too long.
        """
        job, now = self._job, time.monotonic()
        # Only looks count: a program that was stopped, or a machine that slept, gives its workers their time.
        self._idle_s += min(now - self._looked, 2 * self.look_s)
        self._looked = now
        if job.is_done or job.position != self._position:
            self._position, self._idle_s = job.position, 0.0
        elif self._idle_s >= self._timeout_s:
            what = f"no progress for {self._idle_s:.0f} s (hang_timeout_s={self._timeout_s:g})"
            raise WorkerError(what, worker=job.worker, reading=self._about())
        elif self._idle_s >= _SLOW_S and not self._has_warned:
            self._has_warned = True
            _LOG.warning("worker %s makes no progress with %s", job.worker, self._about())

    def _about(self) -> str:
        if self._job.position is None:
            return "what was asked for before: no thread is free to begin"
        return self._make.describe(self._job.position)


def _ignore(position: int) -> None:
    pass
