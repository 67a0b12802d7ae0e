"""What a loader spent its time on, and what that says of what limits it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataformats.loaders.prefetch import BuiltBatch, Timings

__all__ = ["LoaderStats", "Totals"]

_LEAST_S = 1.0  # in less nothing is known
_WAITING = 0.1  # of the time: below that the trainer limits, not the loader
_MOSTLY = 0.5
_CROWDED = 0.7


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """What a loader did so far.

    Attributes:
        batches: Batches that the caller received.
        records: Records in them.
        n_bytes: Bytes of their arrays.
        left_out: Damaged records that were left out.
        waited_s: Seconds that the caller waited for batches.
        read_s: Seconds of workers, added up, that were spent in storage, checksums included;
        decoded_s: in decoding;
        transformed_s: in `transform`, `collate` and `batch_transform`.
        hint: What limits and what would help; empty where the loader does not limit.

    Example:
        >>> import dataformats
        >>> loader = dataformats.Loader(list(range(10)), 5)
        >>> n = sum(1 for batch in loader)
        >>> loader.stats().batches, loader.stats().records
        (2, 10)
    """

    batches: int
    records: int
    n_bytes: int
    left_out: int
    waited_s: float
    read_s: float
    decoded_s: float
    transformed_s: float
    hint: str


@dataclass(slots=True)
class Totals:
    """Adds up what batches took.

    Attributes:
        worker_type: What makes batches: threads or processes.
        workers: How many.
    """

    worker_type: str
    workers: int
    batches: int = 0
    records: int = 0
    n_bytes: int = 0
    left_out: int = 0
    waited: float = 0.0
    waited_since: float = 0.0
    spent: float = 0.0
    sums: Timings = field(default_factory=Timings)

    def add(self, made: BuiltBatch, waited: float, spent: float) -> None:
        """Count a batch that the caller receives.

        Args:
            made: The batch.
            waited: Seconds that the caller waited for it.
            spent: Seconds since it received the one before.
        """
        if self.batches:  # before the first one workers start
            self.waited_since += waited
            self.spent += spent
        self.batches += 1
        self.records += made.n_records
        self.n_bytes += made.n_bytes
        self.left_out += len(made.failed)
        self.waited += waited
        self.sums.add(made.timings)

    def stats(self) -> LoaderStats:
        """Return what was counted."""
        sums = self.sums
        return LoaderStats(
            self.batches,
            self.records,
            self.n_bytes,
            self.left_out,
            self.waited,
            sums.read,
            sums.decode,
            sums.transform,
            self._hint(),
        )

    def _hint(self) -> str:
        sums = self.sums
        made = sums.read + sums.decode + sums.transform
        if self.spent < _LEAST_S or self.waited_since < _WAITING * self.spent:
            return ""
        waiting = f"{100 * self.waited_since / self.spent:.0f} % of the time went into waiting for batches"
        if sums.transform < _MOSTLY * made:
            limit = "storage" if sums.read > sums.decode else "making columns of what was read"
            return f"{waiting}; {limit} limits: more workers may help"
        if self.worker_type == "thread" and self.workers > 1 and sums.process < _CROWDED * made:
            return f"{waiting}; Python functions limit, and threads share one interpreter: try worker_type='process'"
        return f"{waiting}; the functions of the call limit: more workers may help"
