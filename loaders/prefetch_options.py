"""Options of prefetching: batches are built in the caller's thread, in threads, or in processes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from dataformats.integer_arguments import checked_int
from dataformats.loaders.prefetch_threads import InlinePrefetcher, ThreadPrefetcher
from dataformats.loaders.prefetcher import BuildBatch, Prefetcher
from dataformats.loaders.processes.prefetcher import ProcessPrefetcher

__all__ = ["PrefetchOptions", "StartMethod"]

StartMethod = Literal["spawn", "forkserver", "fork"]


@dataclass(frozen=True)
class PrefetchOptions:
    """How batches are built ahead of the caller; see `Loader` for the meaning of the attributes.

    Raises:
        ValueError: One of them is outside its range.
    """

    worker_type: Literal["thread", "process"] = "thread"
    workers: int = 2
    prefetch: int = 2
    prefetch_bytes: int = 2**30
    start_method: StartMethod | None = None
    hang_timeout_s: float | None = 60.0

    def __post_init__(self) -> None:
        if self.worker_type not in ("thread", "process"):
            raise ValueError(f"worker_type: expected 'thread' or 'process', found {self.worker_type!r}")
        if self.start_method not in (None, "spawn", "forkserver", "fork"):
            raise ValueError(f"start_method: expected 'spawn', 'forkserver' or 'fork', found {self.start_method!r}")
        checked_int("workers", self.workers, 0)
        checked_int("prefetch", self.prefetch, 1)
        checked_int("prefetch_bytes", self.prefetch_bytes, 1)
        timeout_s = self.hang_timeout_s
        if timeout_s is not None and not _is_positive(timeout_s):
            raise ValueError(f"hang_timeout_s: expected a number above 0 or None, found {timeout_s!r}")

    def prefetcher(self, build: BuildBatch) -> Prefetcher:
        """Return a new prefetcher, with its threads started."""
        if not self.workers:
            return InlinePrefetcher(build)
        limits: dict[str, Any] = {
            "prefetch": self.prefetch,
            "prefetch_bytes": self.prefetch_bytes,
            "hang_timeout_s": math.inf if self.hang_timeout_s is None else self.hang_timeout_s,
        }
        if self.worker_type == "thread":
            return ThreadPrefetcher(build, self.workers, **limits)
        return ProcessPrefetcher(build, self.workers, start_method=self.start_method, **limits)


def _is_positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and number > 0
