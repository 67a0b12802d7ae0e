"""What makes batches ahead of time: the tasks it gets, what it gives back, and what it promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchTask", "BuildBatch", "BuiltBatch", "FixedTask", "Prefetcher", "Progress", "Timings"]


class BatchTask(Protocol):
    """One batch of one rank. Pickles small."""

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[n], what this rank reads in this step, ascending; may be empty."""
        ...

    @property
    def spare(self) -> NDArray[np.int64]:
        """int64[m], some positions of the whole step, and of others.

        What a batch without a record of its own learns its fields and dtypes from, and what `pad_last` repeats then.
        """
        ...


class FixedTask(NamedTuple):
    """A task whose numbers are at hand; see `BatchTask`."""

    positions: NDArray[np.int64]
    spare: NDArray[np.int64]


@dataclass(slots=True)
class Timings:
    """Seconds that making a batch took, over all threads of its maker.

    Attributes:
        read: Waiting for storage, checksums included.
        decode: From bytes to columns.
        transform: In the caller's functions: `transform`, `batch_transform`, `collate`.
        process: Processor time of the thread while it made the batch, where there are such functions.
    """

    read: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    process: float = 0.0

    def add(self, other: Timings) -> None:
        """Add the seconds of another batch."""
        self.read += other.read
        self.decode += other.decode
        self.transform += other.transform
        self.process += other.process


@dataclass(slots=True)
class BuiltBatch:
    """A batch that was made, before it gets its final form in the caller's process.

    Attributes:
        batch: A `Batch`, or what `collate` made of the records.
        n_records: Rows.
        n_bytes: Bytes of its arrays.
        failed: What was left out: (position, error).
        timings: What it took.
    """

    batch: Any
    n_records: int
    n_bytes: int
    failed: Sequence[tuple[int, Exception]] = ()
    timings: Timings = field(default_factory=Timings)


class Progress(Protocol):
    """What a maker calls so that a hang can be told from work, and named. Called often: must be cheap."""

    def __call__(self, position: int) -> None:
        """Say that the record at `position` is begun."""
        ...


class BuildBatch(Protocol):
    """Makes batches. Thread-safe; pickles, so that processes can make batches as well."""

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        """Return the batch of a task."""
        ...

    def describe(self, position: int) -> str:
        """Return which record a position is, with its file where that is known: `"record 17 of 'a.tfrecord'"`."""
        ...


class Prefetcher(Protocol):
    """Makes batches ahead of time and gives them in the order of their tasks."""

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks, which need not end; what was made of others and not taken is forgotten."""
        ...

    def take(self) -> BuiltBatch:
        """Return the next batch, waiting for it.

        Raises:
            StopIteration: No task is left.
            WorkerError: A worker died or hangs.
            Exception: What making the batch raised; the feed must be started again.
        """
        ...

    def close(self) -> None:
        """End all threads and processes; may be called twice."""
        ...
