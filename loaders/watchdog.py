"""Detect workers that hang while the caller waits for a batch: without progress, and without work for a processor."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dataformats.errors import WorkerError

_LOG = logging.getLogger("dataformats")
_WARN_AFTER_S = 5.0
_RUNS = 1e-3  # a share of the time: slow bytes from a server take more of a processor, threads that wait take none


class WorkerProgress(NamedTuple):
    """The progress of a worker at one moment.

    Attributes:
        worker: Its number; `None` if no worker has begun the task.
        mark: A value that changes whenever it makes progress.
        is_busy: True if it has a task.
        process: The id of its process.
    """

    worker: int | None
    mark: int | None
    is_busy: bool
    process: int


def run_seconds(process: int) -> float:
    """Return how long the threads of a process have run or waited for a processor, but for the calling thread.

    A thread that waits for a lock, a disk or a server does neither; on a busy machine a thread that runs waits for a
    processor for most of the time. Without Linux's statistics it is the time of processors, and 0 of other processes.
    """
    mine, total_ns = str(threading.get_native_id()), 0
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            if thread != mine:
                with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as statistics:
                    total_ns += sum(map(int, statistics.read().split()[:2]))
    except OSError:  # a thread ended meanwhile, or there are no statistics
        if process == os.getpid():
            return time.process_time() - time.thread_time()
    return total_ns / 1e9


class Watchdog:
    """Warns about a worker that makes no progress for 5 s, and raises if for `timeout_s` its threads do not run either.

    Only time spent waiting counts, in short intervals: after the program was stopped (Ctrl-Z), or the machine slept,
    workers get their full time again.

    Args:
        look: Returns the progress of every worker, always as many.
        describe: Returns what a worker, by its place in that list, is working on; `None` for nothing.
        timeout_s: Seconds of such rest after which a worker hangs; `math.inf` never raises.
        consequence: Text for the error: the consequence for a worker that hangs.

    Attributes:
        interval_s: How often to call `check`.
    """

    def __init__(
        self,
        look: Callable[[], Sequence[WorkerProgress]],
        describe: Callable[[int], str | None],
        timeout_s: float,
        consequence: str = "",
    ) -> None:
        self._look = look
        self._describe = describe
        self._timeout_s = timeout_s
        self._consequence = consequence
        self._marks = [worker.mark for worker in look()]
        self._idle_s = [0.0] * len(self._marks)  # without progress
        self._still_s = [0.0] * len(self._marks)  # and without work for a processor
        self._run_s = [0.0] * len(self._marks)
        self._has_warned = [False] * len(self._marks)
        self._checked = time.monotonic()
        self.interval_s: float = min(1.0, timeout_s / 4)

    def check(self) -> None:
        """Look at all workers; does nothing if the last check was less than half an interval ago.

        Raises:
            WorkerError: One hangs.
        """
        now = time.monotonic()
        waited = now - self._checked
        if waited < self.interval_s / 2:
            return
        self._checked = now
        workers = self._look()
        moved = [worker.mark != mark for worker, mark in zip(workers, self._marks, strict=True)]
        self._marks = [worker.mark for worker in workers]
        passed = min(waited, 2 * self.interval_s)
        for number, worker in enumerate(workers):
            # A worker without a task is idle, unless no worker does anything though tasks wait: then it may be stopped.
            if moved[number] or (not worker.is_busy and any(moved)):
                self._idle_s[number], self._still_s[number], self._has_warned[number] = 0.0, 0.0, False
            else:
                before_s, self._run_s[number] = self._run_s[number], run_seconds(worker.process)
                runs = abs(self._run_s[number] - before_s) > waited * _RUNS  # less if a thread ended
                self._idle_s[number] += passed
                self._still_s[number] = 0.0 if runs else self._still_s[number] + passed
        self._report(workers)

    def _report(self, workers: Sequence[WorkerProgress]) -> None:
        """Report busy workers that make no progress; other workers only if none is busy."""
        busy = [number for number, worker in enumerate(workers) if worker.is_busy]
        for number in busy or range(len(workers)):
            idle_s, still_s, worker = self._idle_s[number], self._still_s[number], workers[number].worker
            if still_s >= self._timeout_s:
                problem = "hangs: no progress" if busy else "hangs, or was stopped: it takes none of the waiting tasks"
                problem += f", and no thread of it runs, for {still_s:.0f} s"
                problem += f" (hang_timeout_s={self._timeout_s:g}){self._consequence}"
                raise WorkerError(problem, worker=worker, reading=self._describe(number))
            if idle_s >= _WARN_AFTER_S and not self._has_warned[number]:
                self._has_warned[number] = True
                task = self._describe(number) or "it has taken no task: it is still starting, or was stopped"
                _LOG.warning("worker %s makes no progress for %.0f s: %s", worker, idle_s, task)
