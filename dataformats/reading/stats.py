"""Statistics of fields: range, mean, histogram, most common and largest values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, RecordBatch, take_column
from dataformats.display.media import media_text
from dataformats.errors import CodecError, FormatError
from dataformats.reading.running_statistics import (
    Frequencies,
    Histogram,
    Largest,
    LargestValues,
    Moments,
    RunningHistogram,
)
from dataformats.reading.scan import read_parts, scan_to_error
from dataformats.spec import is_short_float
from dataformats.storage.one_ahead import prefetch

if TYPE_CHECKING:
    from dataformats.interfaces.record_source import RecordSource

__all__ = ["FieldStats", "RunningStats", "scan_stats"]

_BUFFERED, _CHUNK = 2**14, 2**15  # numbers that are measured at once: few calls, and within the processor's cache
_SHORT = 100  # bytes, up to which text may be a name or a class
_SHOWN_FAILURES = 100


@dataclass(frozen=True, slots=True)
class FieldStats:
    """Statistics of the values of one field.

    NaN and infinities are counted apart from numbers. Images and videos are measured as they are stored.

    Attributes:
        count: Records that hold the field.
        missing: Records that do not.
        minimum: Smallest number, or smallest length of bytes, text and sequences. `None` without values.
        maximum: Largest number or length.
        mean: Mean of the numbers or lengths; its error is below 1e-14 of the largest magnitude.
        std: Standard deviation of the population of numbers or lengths; exact to 11 digits, also for integers near
            2**63.
        of_lengths: True if these four, the histogram and the largest values describe lengths.
        failed: Damaged records, which were left out.
        nans: Numbers that are NaN.
        infinite: Numbers that are infinite.
        histogram: Counts of all finite numbers, or of all lengths; bins of integers have integer width.
        distinct: Distinct values, of integers, booleans, and text and bytes of up to 100 bytes; `None` if there are
            more than 10,000, or the field has none of these types.
        most_common: Up to 100 pairs (value, count), the most common first; `None` if `distinct` is.
        largest: The ten largest values, the largest first; empty if records hold several numbers.

    Example:
        >>> import dataformats
        >>> label = dataformats.open("tests/golden/real/digits-*.tfrecord").stats("label")
        >>> label.count, label.missing, label.minimum, label.maximum
        (1797, 0, 0.0, 9.0)
        >>> label.distinct, label.most_common[:2]
        (10, ((3, 183), (1, 182)))
        >>> label.histogram.counts
        (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
    """

    count: int
    missing: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    of_lengths: bool
    failed: int = 0
    nans: int = 0
    infinite: int = 0
    histogram: Histogram | None = None
    distinct: int | None = None
    most_common: tuple[tuple[Any, int], ...] | None = None
    largest: tuple[Largest, ...] = ()


class RunningStats:
    """Statistics of fields whose records arrive batch by batch. Memory is bounded.

    Args:
        fields: Their names.
        n_largest: How many of the largest values of each field are kept.

    Attributes:
        records: Records so far, with those that failed.
        n_failed: Damaged records so far.
        failures: Record number to error, for the first hundred damaged records.

    Example:
        >>> import dataformats
        >>> from dataformats.reading.stats import RunningStats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> running = RunningStats(["label"])
        >>> for batch in digits[:100].scan(["label"]):
        ...     running.add(batch)
        >>> running.records, running.snapshot()["label"].distinct
        (100, 10)
    """

    def __init__(self, fields: Sequence[str], n_largest: int = 10) -> None:
        self.records: int = 0
        self.n_failed: int = 0
        self.failures: dict[int, Exception] = {}
        self._fields = {name: _FieldStats(n_largest) for name in fields}

    def add(self, batch: RecordBatch) -> None:
        """Add the records of a batch, which may have further fields; its failed ones are counted."""
        self.records += len(batch) + len(batch.failed)
        self.n_failed += len(batch.failed)
        room = _SHOWN_FAILURES - len(self.failures)
        self.failures.update(itertools.islice(sorted(batch.failed.items()), room))
        if len(batch):
            for name, stats in self._fields.items():
                stats.add(batch.columns[name], batch.indices)

    def snapshot(self) -> dict[str, FieldStats]:
        """Return the statistics of the records so far."""
        return {name: stats.summary(self.n_failed) for name, stats in self._fields.items()}


def scan_stats(
    source: RecordSource, fields: Sequence[str] | None = None, n_largest: int = 10
) -> Iterator[RunningStats]:
    """Read a source once, and yield the same statistics at the start and after each batch.

    Damaged records are left out and counted.

    Args:
        source: Its images and videos are not decoded.
        fields: Names; `None` is every field.
        n_largest: How many of the largest values of each field are kept.

    Raises:
        SpecError: A record does not fit the spec.

    Example:
        >>> import dataformats
        >>> from dataformats.reading.stats import scan_stats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> for running in scan_stats(digits, ["label"]):
        ...     done = running.records / len(digits)
        >>> done, running.snapshot()["label"].maximum
        (1.0, 9.0)
    """
    from dataformats.reading.undecoded import leave_undecoded  # it imports this module

    names = list(source.mask(fields))
    running = RunningStats(names, n_largest)
    yield running
    for batch in _sound_batches(leave_undecoded(source), names):
        running.add(batch)
        yield running


def _sound_batches(source: RecordSource, fields: Sequence[str]) -> Iterator[RecordBatch]:
    """Yield all records, the damaged ones as failed."""
    rest = yield from scan_to_error(source, fields, (FormatError, CodecError))
    yield from prefetch(read_parts(lambda part: source.read(part, fields, "omit"), rest))


class _FieldStats:
    """The statistics of one field, whose numbers are collected until there are enough to be measured at once."""

    def __init__(self, n_largest: int) -> None:
        self._count = self._missing = self._nans = self._infinite = 0
        self._of_lengths = False
        self._moments, self._histogram = Moments(), RunningHistogram()
        self._frequencies, self._largest = Frequencies(), LargestValues(n_largest)
        self._counts_numbers = False
        self._bool = False
        self._waiting: list[NDArray[Any]] = []
        self._n_waiting = 0

    def add(self, column: Any, indices: NDArray[np.int64]) -> None:
        present = getattr(column, "present", None)
        rows = np.arange(len(indices)) if present is None else np.flatnonzero(present)
        self._count += len(rows)
        self._missing += len(indices) - len(rows)
        values = column.values if isinstance(column, Nullable) else column
        self._of_lengths = not isinstance(values, np.ndarray)
        if not len(rows):
            return
        if isinstance(column, Nullable):
            column, indices, rows = take_column(values, rows), indices[rows], np.arange(len(rows))
        if isinstance(column, np.ndarray):
            self._add_numbers(column, indices)
        elif isinstance(column, Ragged):
            self._add_ragged(column, rows, indices)
        else:
            lengths = np.array([_length(value) for value in column], np.int64)
            self._largest.add(lengths[lengths >= 0], indices[lengths >= 0], lambda _: "")
            self._collect(lengths[lengths >= 0])

    def _add_numbers(self, column: NDArray[Any], indices: NDArray[np.int64]) -> None:
        if is_short_float(column.dtype):
            column = column.astype(np.float32)
        if column.dtype.kind not in "biuf":
            return
        self._bool = column.dtype.kind == "b"
        numbers = column.view(np.uint8) if self._bool else column
        if numbers.ndim == 1:
            self._counts_numbers = numbers.dtype.kind != "f"
            self._largest.add(numbers, indices, lambda _: "")
        self._collect(numbers.reshape(-1))

    def _add_ragged(self, column: Ragged, rows: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
        lengths = column.lengths[rows]
        is_text = column.item_kind in ("bytes", "utf8")
        text = (lambda at: media_text(column[int(rows[at])])) if column.item_kind == "bytes" else (lambda _: "")
        self._largest.add(lengths, indices[rows], text)
        self._collect(lengths)
        if is_text and not self._frequencies.overflown:
            if lengths.max(initial=0) > _SHORT:
                self._frequencies.give_up()
            else:
                self._frequencies.add_others(
                    column if column.present is None else itertools.compress(column, column.present)
                )

    def _collect(self, numbers: NDArray[Any]) -> None:
        self._n_waiting += len(numbers)
        enough = self._n_waiting >= _BUFFERED
        self._waiting.append(numbers if enough else numbers.copy())  # and keep no whole batch for it
        if enough:
            self._measure_all()

    def _measure_all(self) -> None:
        if self._n_waiting:
            numbers = np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
            self._waiting, self._n_waiting = [], 0
            for begin in range(0, len(numbers), _CHUNK):
                self._measure(numbers[begin : begin + _CHUNK])

    def _measure(self, numbers: NDArray[Any]) -> None:
        if numbers.dtype.kind == "f":
            numbers = numbers.astype(np.float64, copy=False)
        with np.errstate(invalid="ignore", over="ignore"):
            least, most = numbers.min().item(), numbers.max().item()
            if not math.isfinite(most - least):  # NaN is both
                numbers = self._finite(numbers)
                if not len(numbers):
                    return
                least, most = numbers.min().item(), numbers.max().item()
            self._moments.add(numbers, least, most)
        self._histogram.add(numbers, least, most)
        if self._counts_numbers and not self._frequencies.overflown:
            self._frequencies.add_integers(numbers, least, most)

    def _finite(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the finite ones, and count the others."""
        finite, nans = np.isfinite(numbers), int(np.isnan(numbers).sum())
        self._nans += nans
        self._infinite += len(numbers) - int(finite.sum()) - nans
        return numbers[finite]

    def summary(self, failed: int) -> FieldStats:
        self._measure_all()
        distinct, most_common = self._frequencies.summary()
        if self._bool and most_common is not None:
            most_common = tuple((bool(value), count) for value, count in most_common)
        return FieldStats(
            self._count,
            self._missing,
            *self._moments.summary(),
            self._of_lengths,
            failed,
            self._nans,
            self._infinite,
            self._histogram.summary(),
            distinct,
            most_common,
            self._largest.values,
        )


def _length(value: Any) -> int:
    """Return the length of a value, or -1 if it has none, as an array of no dimensions."""
    has_none = isinstance(value, np.ndarray) and not value.ndim
    return len(value) if hasattr(value, "__len__") and not has_none else -1
