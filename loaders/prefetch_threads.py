"""Prefetch in threads, bounded and in order; or build each batch in the caller's own thread."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from dataformats.errors import WorkerError
from dataformats.loaders.prefetcher import BatchTask, BuildBatch, BuiltBatch
from dataformats.loaders.watchdog import Watchdog, WorkerProgress
from dataformats.storage.threads import declare_readers

_JOIN_TIMEOUT_S = 1.0
_EXIT_TIMEOUT_S = 10.0  # a process that ends before its thread in a library's code is aborted


class InlinePrefetcher:
    """A `Prefetcher` without workers: builds a batch when it is taken."""

    def __init__(self, build: BuildBatch) -> None:
        self._build = build
        self._tasks: Iterator[BatchTask] = iter(())

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks."""
        self._tasks = tasks

    def take(self) -> BuiltBatch:
        """Build the next batch."""
        return self._build(next(self._tasks), _ignore)

    def close(self) -> None:
        """Do nothing."""


class ThreadPrefetcher:
    """A `Prefetcher` whose workers are threads.

    Args:
        build: Builds a batch; kernels run without the GIL, so several batches are built at once.
        n_threads: The number of threads, at least 1.
        prefetch: Batches that each thread builds ahead, at least 1.
        prefetch_bytes: No batch is begun while waiting batches have this many bytes.
        hang_timeout_s: Seconds of rest after which `take` raises: see `Watchdog`.
    """

    def __init__(
        self, build: BuildBatch, n_threads: int, *, prefetch: int, prefetch_bytes: int, hang_timeout_s: float
    ) -> None:
        self._build = build
        self._max_jobs = n_threads * prefetch
        self._max_bytes = prefetch_bytes
        self._hang_timeout_s = hang_timeout_s
        self._lock = threading.RLock()  # reentrant: a garbage collection in a worker that holds it may call `close`
        # Waiters register under the lock and get one wake-up; spurious wake-ups are harmless. A Condition would create
        # a lock for each wait, and SimpleQueue.put is safe even inside a garbage collection.
        self._worker_wakeups: SimpleQueue[None] = SimpleQueue()
        self._caller_wakeups: SimpleQueue[None] = SimpleQueue()
        self._n_waiting = 0  # workers that wait for a wake-up
        self._awaited: _BatchTask | None = None  # the job that the caller waits for
        self._tasks: Iterator[BatchTask] = iter(())
        self._jobs: deque[_BatchTask] = deque()  # jobs in order; only the first one may be without a worker
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"dataformats-loader-{number}", daemon=True)
            for number in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks; does not wait for batches of earlier tasks."""
        with self._lock:
            self._tasks = tasks
            self._jobs = deque()
            self._wake_workers(len(self._threads))

    def take(self) -> BuiltBatch:
        """Return the next batch.

        Raises:
            StopIteration: No task is left.
            WorkerError: The batch makes no progress.
        """
        with self._lock:
            job = self._jobs[0] if self._jobs else self._append_job(None)
            if job is None:
                raise StopIteration
            is_done, n_ready = job.is_done, sum([one.is_done for one in self._jobs])
            if not is_done:
                self._awaited = job
        if not is_done:
            self._wait_for(job)
        with self._lock:
            if self._closed:  # perhaps after the job was done: the jobs are gone
                raise RuntimeError("the loader was closed while a batch was awaited")
            self._jobs.popleft()
            self._wake_workers(min(self._n_waiting, 1))
        if job.error is not None:
            raise job.error
        assert job.built is not None
        job.built.n_ready = n_ready
        return job.built

    def _wait_for(self, job: _BatchTask) -> None:
        watchdog = Watchdog(job.look, lambda _: self._describe(job), self._hang_timeout_s)
        while not job.is_done and not self._closed:
            try:
                self._caller_wakeups.get(timeout=watchdog.interval_s)
            except Empty:
                try:
                    watchdog.check()
                except WorkerError as error:
                    error.add_note(_stacks())
                    raise

    def _describe(self, job: _BatchTask) -> str:
        if job.position is None:
            return "earlier batches: no thread is free to begin this one"
        return self._build.describe(job.position)

    def close(self) -> None:
        """End the threads; one that runs a function of the caller ends after it."""
        with self._lock:
            self._closed = True
            self._jobs = deque()
            self._tasks = iter(())
            self._wake_workers(len(self._threads))  # including one that is about to wait
            self._caller_wakeups.put(None)
        if threading.current_thread() in self._threads:
            return  # called by the caller's function or by a garbage collection: other threads may need its locks
        stop = time.monotonic() + (_JOIN_TIMEOUT_S if threading.main_thread().is_alive() else _EXIT_TIMEOUT_S)
        for thread in self._threads:
            thread.join(max(0.0, stop - time.monotonic()))
            if thread.is_alive():
                atexit.register(thread.join, _EXIT_TIMEOUT_S)

    def _work(self, number: int) -> None:
        declare_readers(len(self._threads))
        while True:
            job = self._wait_for_job(number)
            if job is None:
                return
            job.run(self._build)
            with self._lock:
                job.is_done = True
                if self._awaited is job:
                    self._awaited = None
                    self._caller_wakeups.put(None)
            del job  # else its batch would live until the next job begins

    def _wait_for_job(self, number: int) -> _BatchTask | None:
        """Return a job for a worker; `None` if the prefetcher is closed."""
        while True:
            with self._lock:
                if self._closed:
                    return None
                job = self._next_job(number)
                if job is not None:
                    return job
                self._n_waiting += 1
            self._worker_wakeups.get()

    def _wake_workers(self, n: int) -> None:
        """Have `n` workers look for a job; if Ctrl-C interrupts this, the next call wakes one more."""
        for _ in range(n):
            self._worker_wakeups.put(None)
        self._n_waiting = max(0, self._n_waiting - n)

    def _next_job(self, number: int) -> _BatchTask | None:
        """Return a job for a worker, if there is one and its batch has room."""
        jobs = self._jobs
        if jobs and jobs[0].worker is None:
            jobs[0].worker = number
            return jobs[0]
        if len(jobs) >= self._max_jobs or sum([job.n_bytes for job in jobs]) >= self._max_bytes:
            return None
        return self._append_job(number)

    def _append_job(self, number: int | None) -> _BatchTask | None:
        """Queue the next task for a worker, or for any worker if `None`; return `None` if no task is left."""
        task = next(self._tasks, None)
        if task is None:
            return None
        job = _BatchTask(task, number)
        self._jobs.append(job)
        if number is None:
            self._wake_workers(min(self._n_waiting, 1))
        return job


@dataclass(slots=True, eq=False)
class _BatchTask:
    """A task and its result.

    Attributes:
        task: The task.
        worker: The thread that runs it; `None`: no thread has begun.
        position: The record that is being read or transformed.
        n_bytes: Bytes of the batch, once it is built.
        built: The batch, once it is built.
        error: The exception, if building it raised.
        is_done: True if either is set.
    """

    task: BatchTask
    worker: int | None
    position: int | None = None
    n_bytes: int = 0
    built: BuiltBatch | None = None
    error: BaseException | None = None
    is_done: bool = False

    def run(self, build: BuildBatch) -> None:
        try:
            self.built = build(self.task, self._progress)
            self.n_bytes = self.built.n_bytes
        except BaseException as error:  # including SystemExit of the caller's functions
            self.error = error

    def look(self) -> tuple[WorkerProgress]:
        return (WorkerProgress(self.worker, -1 if self.is_done else self.position, True, os.getpid()),)

    def _progress(self, position: int) -> None:
        self.position = position


def _stacks() -> str:
    """Return where the threads of this package are, for the error of a hang."""
    frames, threads = sys._current_frames(), threading.enumerate()
    found = [(thread.name, frames.get(thread.ident or 0)) for thread in threads if "dataformats" in thread.name]
    return "\n".join(f"{name}:\n{''.join(traceback.format_stack(frame))}" for name, frame in found if frame is not None)


def _ignore(position: int) -> None:
    pass
