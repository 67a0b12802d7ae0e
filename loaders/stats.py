"""Statistics of a loader: how it spent its time, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataformats.loaders.prefetcher import BuiltBatch, Timings

__all__ = ["LoaderStats", "Totals"]

_MIN_S = 1.0  # shorter measurements give no hint
_MIN_WAITING = 0.1  # share of the time; below, training limits the speed and not the loader
_MOSTLY = 0.5  # share of the time of workers
_CROWDED = 0.7  # CPU time by time of workers; below, threads wait for the interpreter


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Statistics of a loader since its start.

    Attributes:
        batches: Batches that the caller received.
        records: Records in them.
        nbytes: Bytes of their arrays.
        omitted: Damaged records that were omitted.
        waited_s: Seconds that the caller waited for batches.
        read_s: Seconds of all workers in storage, including checksums.
        decoded_s: Seconds of all workers in decoding.
        transformed_s: Seconds of all workers in `transform`, `collate` and `batch_transform`.
        hint: The limit of the speed, and a remedy; empty if the loader does not limit it.

    Example:
        >>> import dataformats
        >>> loader = dataformats.Loader(list(range(10)), 5)
        >>> n = sum(1 for batch in loader)
        >>> loader.stats().batches, loader.stats().records
        (2, 10)
    """

    batches: int
    records: int
    nbytes: int
    omitted: int
    waited_s: float
    read_s: float
    decoded_s: float
    transformed_s: float
    hint: str


@dataclass(slots=True)
class Totals:
    """Sums of the statistics of batches.

    Attributes:
        worker_type: `"thread"` or `"process"`.
        workers: Number of workers.
    """

    worker_type: str
    workers: int
    batches: int = 0
    records: int = 0
    nbytes: int = 0
    omitted: int = 0
    waited_s: float = 0.0
    waited_since_s: float = 0.0  # leaves out the first batch, because workers start before it
    spent_since_s: float = 0.0
    timings: Timings = field(default_factory=Timings)

    def add(self, built: BuiltBatch, waited_s: float, spent_s: float) -> None:
        """Add a batch that the caller receives.

        Args:
            built: The batch.
            waited_s: Seconds that the caller waited for it.
            spent_s: Seconds since the caller received the previous one.
        """
        if self.batches:
            self.waited_since_s += waited_s
            self.spent_since_s += spent_s
        self.batches += 1
        self.records += built.n_records
        self.nbytes += built.n_bytes
        self.omitted += len(built.failed)
        self.waited_s += waited_s
        self.timings.add(built.timings)

    def stats(self) -> LoaderStats:
        """Return the statistics so far."""
        read_s, decoded_s, transformed_s = self.timings.read, self.timings.decode, self.timings.transform
        counts = (self.batches, self.records, self.nbytes, self.omitted)
        return LoaderStats(*counts, self.waited_s, read_s, decoded_s, transformed_s, self._hint())

    def _hint(self) -> str:
        timings = self.timings
        busy = timings.read + timings.decode + timings.transform
        if self.spent_since_s < _MIN_S or self.waited_since_s < _MIN_WAITING * self.spent_since_s:
            return ""
        waiting = f"{100 * self.waited_since_s / self.spent_since_s:.0f} % of the time was spent waiting for batches"
        if timings.transform < _MOSTLY * busy:
            limit = "storage" if timings.read > timings.decode else "decoding"
            return f"{waiting}; {limit} limits the speed: more workers may help"
        if self.worker_type == "thread" and self.workers > 1 and timings.process < _CROWDED * busy:
            return (
                f"{waiting}; Python functions limit the speed, and threads share one interpreter: "
                "try worker_type='process'"
            )
        return f"{waiting}; transform, collate or batch_transform limits the speed: more workers may help"
