"""The prefetcher of one loader: started when first needed, restarted after the loader has moved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

from dataformats.errors import WorkerError
from dataformats.fork_hooks import after_fork
from dataformats.loaders.prefetch_options import PrefetchOptions
from dataformats.loaders.prefetcher import BatchTask, BuildBatch, BuiltBatch, Prefetcher

__all__ = ["PrefetchSession"]


class PrefetchSession:
    """Owns a prefetcher, and closes it when the session itself is collected.

    Args:
        options: Which prefetcher.

    Attributes:
        is_stale: True if the prefetcher has to be started at the loader's position before the next batch. `take` sets
            it and the loader clears it after delivery, so a batch that an error or Ctrl-C interrupted is built again.
    """

    def __init__(self, options: PrefetchOptions) -> None:
        self._options = options
        self._prefetcher: Prefetcher | None = None
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
            self._prefetcher = self._options.prefetcher(build)
            self._finalizer = weakref.finalize(self, self._prefetcher.close)
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
        if self._prefetcher is not None:
            self._finalizer()
        self._prefetcher, self.is_stale = None, True

    def _forget(self) -> None:
        """In a forked child: its threads and processes belong to the parent."""
        if self._prefetcher is not None:
            self._finalizer.detach()
        self._prefetcher, self.is_stale = None, True
