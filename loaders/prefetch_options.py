"""Who makes batches: the caller's own thread, threads, or processes."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Literal

from dataformats.loaders.prefetch import BuildBatch, Prefetcher
from dataformats.loaders.prefetch_threads import InlinePrefetcher, ThreadPrefetcher
from dataformats.loaders.processes.prefetch import ProcessPrefetcher

__all__ = ["PrefetchOptions", "StartMethod", "checked_int"]

StartMethod = Literal["spawn", "forkserver", "fork"]


@dataclass(frozen=True)
class PrefetchOptions:
    """How batches are made ahead of time; see `Loader` for what these mean.

    Raises:
        ValueError: One of them is outside its range.
    """

    kind: Literal["thread", "process"] = "thread"
    n: int = 2
    prefetch: int = 2
    prefetch_bytes: int = 2**30
    start_method: StartMethod | None = None
    hang_timeout_s: float | None = 60.0

    def __post_init__(self) -> None:
        if self.kind not in ("thread", "process"):
            raise ValueError(f"expected worker_type 'thread' or 'process', found {self.kind!r}")
        if self.start_method not in (None, "spawn", "forkserver", "fork"):
            raise ValueError(f"expected start_method 'spawn', 'forkserver' or 'fork', found {self.start_method!r}")
        checked_int("workers", self.n, 0)
        checked_int("prefetch", self.prefetch, 1)
        checked_int("prefetch_bytes", self.prefetch_bytes, 1)
        timeout_s = self.hang_timeout_s
        if timeout_s is not None and not _is_above_0(timeout_s):
            raise ValueError(f"hang_timeout_s must be a number above 0, or None, found {timeout_s!r}")

    def prefetcher(self, make: BuildBatch) -> Prefetcher:
        """Start them."""
        if not self.n:
            return InlinePrefetcher(make)
        bounds: dict[str, Any] = {
            "prefetch": self.prefetch,
            "prefetch_bytes": self.prefetch_bytes,
            "hang_timeout_s": math.inf if self.hang_timeout_s is None else self.hang_timeout_s,
        }
        if self.kind == "thread":
            return ThreadPrefetcher(make, self.n, **bounds)
        return ProcessPrefetcher(make, self.n, start_method=self.start_method, **bounds)


def _is_above_0(number: Any) -> bool:
    return isinstance(number, (int, float)) and number > 0


def checked_int(name: str, number: Any, least: int) -> int:
    """Return a whole number in `[least, 2**63)`, of whatever type it came.

    Raises:
        ValueError: It is none.
    """
    try:
        found = least - 1 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        found = least - 1
    if not least <= found < 2**63:
        raise ValueError(f"{name} must be a whole number in [{least}, 2**63), found {number!r}")
    return found
