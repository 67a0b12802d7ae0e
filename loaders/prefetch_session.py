"""The prefetcher of one loader: inline, threads or processes, started when needed, restarted after a move."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

from dataformats.errors import WorkerError
from dataformats.fork_hooks import after_fork
from dataformats.integer_arguments import checked_int
from dataformats.loaders.prefetch_threads import InlinePrefetcher, ThreadPrefetcher
from dataformats.loaders.prefetcher import BatchTask, BuildBatch, BuiltBatch, Prefetcher
from dataformats.loaders.processes.prefetcher import ProcessPrefetcher

StartMethod = Literal["spawn", "forkserver", "fork"]


class PrefetchSession:
    """Owns a prefetcher, and closes it when the session itself is collected.

    For the arguments see `Loader`.

    Attributes:
        is_stale: True if the prefetcher has to be started at the loader's position before the next batch. `take` sets
            it and the loader clears it after delivery, so a batch that an error or Ctrl-C interrupted is built again.

    Raises:
        ValueError: An argument is outside its range.
    """

    def __init__(
        self,
        worker_type: Literal["thread", "process"],
        workers: int,
        start_method: StartMethod | None,
        *,
        prefetch: int,
        prefetch_bytes: int,
        hang_timeout_s: float | None,
    ) -> None:
        if worker_type not in ("thread", "process"):
            raise ValueError(f"worker_type: expected 'thread' or 'process', found {worker_type!r}")
        if start_method not in (None, "spawn", "forkserver", "fork"):
            raise ValueError(f"start_method: expected 'spawn', 'forkserver' or 'fork', found {start_method!r}")
        timeout_s: Any = math.inf if hang_timeout_s is None else hang_timeout_s
        if not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise ValueError(f"hang_timeout_s: expected a number above 0 or None, found {timeout_s!r}")
        self._worker_type, self._start_method = worker_type, start_method
        self._workers = checked_int("workers", workers, 0)
        self._limits: dict[str, Any] = {
            "prefetch": checked_int("prefetch", prefetch, 1),
            "prefetch_bytes": checked_int("prefetch_bytes", prefetch_bytes, 1),
            "hang_timeout_s": timeout_s,
        }
        self._prefetcher: Prefetcher | None = None
        self._finalizer: weakref.finalize[..., PrefetchSession] | None = None  # closes it
        self.is_stale: bool = True
        after_fork(self, "_forget")

    def take(self, build: BuildBatch, tasks: Callable[[], Iterator[BatchTask]]) -> BuiltBatch:
        """Return the next batch.

        Args:
            build: Builds batches; must not reference the loader, which would then live as long as its workers.
            tasks: Returns the tasks from the loader's position on.

        Raises:
            StopIteration: No task is left.
            WorkerError: A worker died or hangs; the next call starts new ones.
        """
        if self._prefetcher is None:
            prefetcher = self._new_prefetcher(build)
            self._finalizer = weakref.finalize(self, prefetcher.close)  # first: another thread may fork at any moment
            self._prefetcher = prefetcher
        if self.is_stale:
            self._prefetcher.start(tasks())
        self.is_stale = True
        try:
            return self._prefetcher.take()
        except WorkerError:
            self.close()
            raise

    def close(self) -> None:
        """End the workers; the next `take` starts new ones."""
        if self._finalizer is not None:
            self._finalizer()
        self._prefetcher, self._finalizer, self.is_stale = None, None, True

    def _new_prefetcher(self, build: BuildBatch) -> Prefetcher:
        if not self._workers:
            return InlinePrefetcher(build)
        if self._worker_type == "thread":
            return ThreadPrefetcher(build, self._workers, **self._limits)
        return ProcessPrefetcher(build, self._workers, start_method=self._start_method, **self._limits)

    def _forget(self) -> None:
        """In a forked child: its threads and processes belong to the parent."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._prefetcher, self._finalizer, self.is_stale = None, None, True
