"""Contracts of prefetching: the task of a batch, its builder, and the prefetcher that works ahead of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class BatchTask(Protocol):
    """The positions of one batch on one rank. Pickles small."""

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[n], the positions that this rank reads in this step, ascending; may be empty."""
        ...

    @property
    def spare(self) -> NDArray[np.int64]:
        """int64[m], some positions of the whole step, then some of the first epoch.

        A batch without a record borrows one of these: it shows fields and dtypes, and `pad_last` repeats it.
        """
        ...

    @property
    def after(self) -> int:
        """The position at which the next step begins."""
        ...


class FixedTask(NamedTuple):
    """A task that stores its positions; see `BatchTask` for the attributes."""

    positions: NDArray[np.int64]
    spare: NDArray[np.int64]
    after: int = 0


@dataclass(slots=True)
class Timings:
    """Seconds that building a batch took, over all threads that took part.

    Attributes:
        read: Waiting for storage, including checksums.
        decode: Decoding bytes to columns.
        transform: `transform` and `batch_transform`.
        collate: Making the columns of the batch, by `collate` or without it.
        transfer: Conversion to tensors, and copies to a device.
        total: All of these, and the rest.
        process: CPU time of the thread that built the batch; 0 without functions of the caller.
    """

    read: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    collate: float = 0.0
    transfer: float = 0.0
    total: float = 0.0
    process: float = 0.0

    def add(self, other: Timings) -> None:
        """Add the seconds of another batch."""
        self.read += other.read
        self.decode += other.decode
        self.transform += other.transform
        self.collate += other.collate
        self.transfer += other.transfer
        self.total += other.total
        self.process += other.process

    def add_transfer(self, seconds: float) -> None:
        """Add a conversion after the batch was built."""
        self.transfer += seconds
        self.total += seconds

    def __sub__(self, earlier: Timings) -> Timings:
        return Timings(*(getattr(self, one.name) - getattr(earlier, one.name) for one in fields(self)))


@dataclass(slots=True)
class BuiltBatch:
    """A batch with facts about it.

    Attributes:
        batch: A `Batch`, or the value that `collate` or `batch_transform` returned.
        n_records: Rows.
        n_bytes: Bytes of its arrays.
        failed: Records that were left out: (position, error).
        timings: Seconds that it took.
        after: `BatchTask.after` of its task.
        n_ready: How many batches were ready when the caller asked for this one.
    """

    batch: Any
    n_records: int
    n_bytes: int
    failed: Sequence[tuple[int, Exception]] = ()
    timings: Timings = field(default_factory=Timings)
    after: int = 0
    n_ready: int = 0


class Progress(Protocol):
    """Called by a builder to show that it does not hang, and which record it is at. Called often: must be cheap."""

    def __call__(self, position: int) -> None:
        """Report that the record at `position` is begun."""
        ...


class BuildBatch(Protocol):
    """Builds batches. Thread-safe; pickles, so that worker processes can build batches as well."""

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        """Return the batch of a task."""
        ...

    def describe(self, position: int) -> str:
        """Return which record a position is, with its file if that is known: `"record 17 of 'a.tfrecord'"`."""
        ...


class Prefetcher(Protocol):
    """Has batches built ahead of the caller, and returns them in the order of their tasks."""

    def start(self, tasks: Iterator[BatchTask]) -> None:
        """Begin with these tasks, which may be endless; batches of earlier tasks are discarded."""
        ...

    def take(self) -> BuiltBatch:
        """Return the next batch, waiting for it.

        Raises:
            StopIteration: No task is left.
            WorkerError: A worker died or hangs.
            Exception: Building the batch raised it; the prefetcher must be started again.
        """
        ...

    def close(self) -> None:
        """End all threads and processes; may be called twice."""
        ...
