"""Statistics of a loader: how it spent its time, what limits it, and the change that would help most."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace

from dataformats.loaders.advice import LIMITS, LoaderSetup
from dataformats.loaders.prefetcher import BuiltBatch, Timings

__all__ = ["LoaderStats"]

_MIN_S = 1.0  # shorter measurements give no hint
_MIN_WAITING = 0.1  # share of the time; below, training limits the speed and not the loader
_REPORT_S = 60.0


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Statistics of a loader since its start, or of the last minute: see `Loader(report=)`.

    `str` says them in one line: the share of the time that training waited, where the time of a batch goes, how full
    the queue was, and the change that would help most.

    Attributes:
        batches: Batches that the caller received.
        records: Records in them.
        nbytes: Bytes of their arrays.
        omitted: Damaged records that were omitted.
        spent_s: Seconds from the request for the first batch to the last batch.
        waited_s: Seconds that the caller waited for batches.
        waiting: Share of the time that the caller waited, without the first batch, before which workers start.
        read_s: Seconds of all workers in storage, including checksums.
        decoded_s: Seconds of all workers in decoding.
        transformed_s: Seconds of all workers in `transform` and `batch_transform`.
        collated_s: Seconds of all workers in making columns, by `collate` or without it.
        transferred_s: Seconds in conversion to tensors and copies to a device.
        built_s: Seconds of all workers for all batches: the five above, and the rest.
        queue: Share of the places for batches built ahead, `workers * prefetch`, that had a batch when the caller asked
            for the next one; 0 without workers.
        hint: The limit of the speed, and the change that would help most; empty if the loader does not limit it, or if
            it is not known after less than a second.

    Example:
        >>> import dataformats
        >>> loader = dataformats.Loader(list(range(10)), 5)
        >>> n = sum(1 for batch in loader)
        >>> loader.stats().batches, loader.stats().records
        (2, 10)
        >>> str(loader.stats())  # doctest: +ELLIPSIS
        'waiting for data ...% of ... s; time of a batch: ...; queue ...% full; too short for a hint'
    """

    batches: int
    records: int
    nbytes: int
    omitted: int
    spent_s: float
    waited_s: float
    waiting: float
    read_s: float
    decoded_s: float
    transformed_s: float
    collated_s: float
    transferred_s: float
    built_s: float
    queue: float
    hint: str

    @property
    def shares(self) -> dict[str, float]:
        """The share of each stage in the time of a batch: read, decode, transform, collate, transfer.

        They sum to 1 or less: planning, and calling the caller's functions, is in none of them.
        """
        seconds = (self.read_s, self.decoded_s, self.transformed_s, self.collated_s, self.transferred_s)
        return {name: part / max(self.built_s, 1e-9) for name, part in zip(LIMITS, seconds, strict=True)}

    def __str__(self) -> str:
        shares = sorted(self.shares.items(), key=lambda one: -one[1])
        stages = ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= 0.005)
        is_fast = self.spent_s >= _MIN_S and self.waiting < _MIN_WAITING
        hint = self.hint or ("training limits the speed" if is_fast else "too short for a hint")
        return (
            f"waiting for data {self.waiting:.0%} of {self.spent_s:.1f} s; time of a batch: {stages}; "
            f"queue {self.queue:.0%} full; {hint}"
        )


@dataclass(slots=True)
class Totals:
    """Sums of the statistics of batches.

    Attributes:
        first_s: Seconds that the caller waited for the first batch of a loader.
        ready: Sum of the batches that were ready when the caller asked for one.
    """

    batches: int = 0
    records: int = 0
    nbytes: int = 0
    omitted: int = 0
    spent_s: float = 0.0
    waited_s: float = 0.0
    first_s: float = 0.0
    ready: int = 0
    timings: Timings = field(default_factory=Timings)

    def add(self, built: BuiltBatch, waited_s: float, spent_s: float) -> None:
        """Add a batch that the caller receives.

        Args:
            built: The batch.
            waited_s: Seconds that the caller waited for it.
            spent_s: Seconds since the caller received the previous one.
        """
        if not self.batches:
            spent_s = self.first_s = waited_s
        self.batches += 1
        self.records += built.n_records
        self.nbytes += built.n_bytes
        self.omitted += len(built.failed)
        self.spent_s += spent_s
        self.waited_s += waited_s
        self.ready += built.n_ready
        self.timings.add(built.timings)

    def __sub__(self, earlier: Totals) -> Totals:
        return Totals(*(getattr(self, one.name) - getattr(earlier, one.name) for one in fields(self)))

    def stats(self, setup: LoaderSetup) -> LoaderStats:
        """Return the statistics of a loader with these arguments."""
        timings = self.timings
        since_s = self.spent_s - self.first_s
        found = LoaderStats(
            *(self.batches, self.records, self.nbytes, self.omitted, self.spent_s, self.waited_s),
            waiting=(self.waited_s - self.first_s) / since_s if since_s > 0 else 0.0,
            read_s=timings.read,
            decoded_s=timings.decode,
            transformed_s=timings.transform,
            collated_s=timings.collate,
            transferred_s=timings.transfer,
            built_s=timings.total,
            queue=self.ready / max(1, self.batches * setup.places),
            hint="",
        )
        if since_s < _MIN_S or found.waiting < _MIN_WAITING:
            return found
        limit = LIMITS[max(found.shares, key=lambda name: found.shares[name])]
        change = setup.best_change(found.shares, timings.process / timings.total)
        return replace(found, hint=f"{limit} limits the speed: try {change}")


class MinuteReport:
    """Calls a function with the statistics of the last minute, once a minute.

    Args:
        function: `Loader(report=)`.

    Raises:
        TypeError: It is not callable.
    """

    def __init__(self, function: Callable[[LoaderStats], object]) -> None:
        if not callable(function):
            raise TypeError(f"report: expected a function that takes the statistics of a minute, found {function!r}")
        self._function = function
        self._due_s = 0.0
        self._before = Totals()

    def look(self, totals: Totals, setup: Callable[[], LoaderSetup]) -> None:
        """Call the function if a minute is over, and the caller received a batch in it."""
        now_s = time.perf_counter()
        if now_s < self._due_s:
            return
        minute, self._before, self._due_s = totals - self._before, deepcopy(totals), now_s + _REPORT_S
        if minute.batches:
            self._function(minute.stats(setup()))
