"""Batches made by threads, ahead of time and in order; or in the caller's own thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from dataformats.errors import WorkerError
from dataformats.loaders.feeding import Made, Make, Task
from dataformats.storage.threads import one_of

__all__ = ["InlineFeed", "ThreadFeed"]

_LOG = logging.getLogger("dataformats")
_LOOK_S = 1.0
_SLOW_S = 5.0
_PATIENCE_S = 1.0


class InlineFeed:
    """Makes a batch when it is asked for; keeps the promise of `Feed`."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._tasks: Iterator[Task] = iter(())

    def start(self, tasks: Iterator[Task]) -> None:
        """Begin with these tasks."""
        self._tasks = tasks

    def take(self) -> Made:
        """Return the next batch."""
        return self._make(next(self._tasks), _ignore)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class ThreadFeed:
    """Threads that make batches ahead of time; keeps the promise of `Feed`.

    Args:
        make: Makes a batch; kernels run without the GIL, so that several are made at once.
        n_threads: At least 1.
        prefetch: Batches that a thread is ahead, at least 1.
        prefetch_bytes: No batch is begun while those that wait have as many bytes.
        hang_timeout_s: A batch that makes no progress for so long is given up.
    """

    def __init__(
        self, make: Make, n_threads: int, *, prefetch: int, prefetch_bytes: int, hang_timeout_s: float
    ) -> None:
        self._make = make
        self._most = n_threads * prefetch
        self._most_bytes = prefetch_bytes
        self._hang_timeout_s = hang_timeout_s
        lock = threading.RLock()  # garbage may be collected in a worker that holds it, and close the feed
        self._room = threading.Condition(lock)  # what workers wait for
        self._done = threading.Condition(lock)  # what the caller waits for
        self._tasks: Iterator[Task] = iter(())
        self._jobs: deque[_Job] = deque()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"dataformats-loader-{number}", daemon=True)
            for number in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, tasks: Iterator[Task]) -> None:
        """Begin with these tasks; batches of others that are being made are not waited for."""
        with self._room:
            self._tasks = tasks
            self._jobs = deque()
            self._room.notify_all()

    def take(self) -> Made:
        """Return the next batch.

        Raises:
            StopIteration: No task is left.
            WorkerError: It makes no progress.
        """
        with self._done:
            job = self._jobs[0] if self._jobs else self._begin(None)
            if job is None:
                raise StopIteration
            watch = _Watch(job, self._make, self._hang_timeout_s)
            while not job.is_done and not self._closed:
                self._done.wait(watch.look_s)
                watch.look()
            if self._closed:  # perhaps behind its end: the jobs are gone
                raise RuntimeError("the loader was closed while a batch was waited for")
            self._jobs.popleft()
            self._room.notify()
        if job.error is not None:
            raise job.error
        assert job.made is not None
        return job.made

    def close(self) -> None:
        """End the threads; one that is inside a function of the caller ends behind it."""
        with self._room:
            self._closed = True
            self._jobs = deque()
            self._tasks = iter(())
            self._room.notify_all()
            self._done.notify_all()
        if threading.current_thread() in self._threads:
            return  # a function of the caller, or garbage that is collected there: the others may need what it holds
        stop = time.monotonic() + _PATIENCE_S
        for thread in self._threads:
            thread.join(max(0.0, stop - time.monotonic()))

    def _work(self, number: int) -> None:
        one_of(len(self._threads))
        while True:
            job = self._wait_for_job(number)
            if job is None:
                return
            job.do(self._make)
            with self._done:
                job.is_done = True
                self._done.notify()
            del job  # or its batch would live until the next one is begun

    def _wait_for_job(self, number: int) -> _Job | None:
        """Return a job to do; `None` where the feed is closed."""
        with self._room:
            while not self._closed:
                job = self._next(number)
                if job is not None:
                    return job
                self._room.wait()
        return None

    def _next(self, number: int) -> _Job | None:
        """Return a job to do, where there is one and room for its batch."""
        waiting = next((job for job in self._jobs if job.worker is None), None)
        if waiting is None:
            held = sum(job.made.n_bytes for job in self._jobs if job.made is not None)
            if len(self._jobs) >= self._most or held >= self._most_bytes:
                return None
            return self._begin(number)
        waiting.worker = number
        return waiting

    def _begin(self, number: int | None) -> _Job | None:
        """Line up the next task; return `None` where none is left."""
        task = next(self._tasks, None)
        if task is None:
            return None
        job = _Job(task, number)
        self._jobs.append(job)
        if number is None:
            self._room.notify()
        return job


@dataclass(slots=True, eq=False)
class _Job:
    """A task, and what became of it.

    Attributes:
        task: What to make.
        worker: The thread that does it; `None`: not yet begun.
        position: What is being read or transformed.
    """

    task: Task
    worker: int | None
    position: int | None = None
    made: Made | None = None
    error: BaseException | None = None
    is_done: bool = False

    def do(self, make: Make) -> None:
        try:
            self.made = make(self.task, self._progress)
        except BaseException as error:  # also what a function of the caller raises to end the program
            self.error = error

    def _progress(self, position: int) -> None:
        self.position = position


class _Watch:
    """Tells work from a hang: a job whose position does not move while it is waited for.

    Attributes:
        look_s: How often to look.
    """

    def __init__(self, job: _Job, make: Make, timeout_s: float) -> None:
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
