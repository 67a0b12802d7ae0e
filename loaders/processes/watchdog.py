"""Patience: which worker comes on, and when one that does not is given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from dataformats.errors import WorkerError
from dataformats.loaders.processes.status import WorkerStatus

__all__ = ["Watchdog"]

_WARN_AFTER_S = 5.0

_LOG = logging.getLogger("dataformats")


class Watchdog:
    """Watches workers while somebody waits for one batch.

    Only time that was spent waiting counts, in short looks: a program that was stopped and goes on (Ctrl-Z), or a
    machine that slept, finds its workers as they were and gives them their time.

    Args:
        rows: The numbers of each worker.
        timeout_s: After so long without progress a worker hangs; `math.inf` waits for ever.
    """

    def __init__(self, rows: Sequence[WorkerStatus], timeout_s: float) -> None:
        self._rows = rows
        self._timeout_s = timeout_s
        self._ticks = [-1] * len(rows)
        self._idle_s = [0.0] * len(rows)
        self._warned = [False] * len(rows)
        self.look_s: float = min(1.0, timeout_s / 4)
        self._looked = time.monotonic()

    def look(self, about: Callable[[int], str | None]) -> None:
        """Look at all workers.

        Args:
            about: Says what a worker is about.

        Raises:
            WorkerError: One hangs.
        """
        now = time.monotonic()
        waited = now - self._looked
        if waited < self.look_s / 2:
            return
        self._looked = now
        ticks = [row.ticks for row in self._rows]
        moved = [new != old for new, old in zip(ticks, self._ticks, strict=True)]
        self._ticks = ticks
        for worker, row in enumerate(self._rows):
            # One without a task rests, unless nobody does anything though there are tasks: then it may be stopped.
            if moved[worker] or (row.number is None and any(moved)):
                self._idle_s[worker], self._warned[worker] = 0.0, False
            else:
                self._idle_s[worker] += min(waited, 2 * self.look_s)
        self._judge(about)

    def _judge(self, about: Callable[[int], str | None]) -> None:
        """Speak of those that have a task in hand; of others only where nobody has one."""
        busy = [worker for worker, row in enumerate(self._rows) if row.number is not None]
        for worker in busy or range(len(self._rows)):
            idle_s = self._idle_s[worker]
            if idle_s >= self._timeout_s:
                what = "hangs: no progress" if busy else "hangs, or was stopped: it takes none of the tasks that wait"
                what += f" for {idle_s:.0f} s; it was killed (hang_timeout_s={self._timeout_s:g})"
                raise WorkerError(what, worker=worker, reading=about(worker))
            if idle_s >= _WARN_AFTER_S and not self._warned[worker]:
                self._warned[worker] = True
                _LOG.warning("worker %d makes no progress for %.0f s: %s", worker, idle_s, about(worker) or "begins")
