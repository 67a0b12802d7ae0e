"""Statistics of a field: range, mean, variance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, RecordBatch, take_column

__all__ = ["FieldStats", "RunningStats", "field_stats"]


@dataclass(frozen=True, slots=True)
class FieldStats:
    """Statistics of the values of one field.

    Attributes:
        count: Records that hold the field.
        missing: Records that do not.
        minimum: Smallest number; for bytes, text and sequences smallest length. `None` without values.
        maximum: Largest, likewise.
        mean: Mean, likewise.
        std: Standard deviation of the population, likewise.
        of_lengths: True if the four describe lengths.

    Example:
        >>> import dataformats
        >>> label = dataformats.open("tests/golden/real/digits-*.tfrecord").stats("label")
        >>> label.count, label.missing, label.minimum, label.maximum
        (1797, 0, 0.0, 9.0)
    """

    count: int
    missing: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    of_lengths: bool


class RunningStats:
    """Range, mean and variance of numbers that arrive in parts (Chan, Golub, LeVeque 1979)."""

    def __init__(self) -> None:
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._least = np.inf
        self._most = -np.inf

    def add(self, numbers: NDArray[np.float64]) -> None:
        if not numbers.size:
            return
        n, mean = self._n + numbers.size, float(numbers.mean())
        shift = mean - self._mean
        self._squares += float(((numbers - mean) ** 2).sum()) + shift**2 * self._n * numbers.size / n
        self._mean += shift * numbers.size / n
        self._n = n
        self._least, self._most = min(self._least, numbers.min()), max(self._most, numbers.max())

    def summary(self) -> tuple[float | None, float | None, float | None, float | None]:
        """Return (least, most, mean, standard deviation)."""
        if not self._n:
            return None, None, None, None
        return float(self._least), float(self._most), self._mean, (self._squares / self._n) ** 0.5


def _is_number(column: Any) -> bool:
    """Return True for a column of numbers; of others, the lengths are measured."""
    return isinstance(column.values if isinstance(column, Nullable) else column, np.ndarray)


def _measure(column: Any) -> tuple[NDArray[Any], int]:
    """Return the numbers that statistics are about, and how many records lack the field."""
    present = getattr(column, "present", None)
    missing = 0 if present is None else int((~present).sum())
    if isinstance(column, Nullable):
        return _measure(take_column(column.values, np.flatnonzero(column.present)))[0], missing
    if isinstance(column, Ragged):
        return column.lengths if present is None else column.lengths[present], missing
    if isinstance(column, list):
        return np.array([len(value) for value in column if hasattr(value, "__len__")]), missing
    return column.reshape(-1), missing


def field_stats(batches: Iterable[RecordBatch], field: str) -> FieldStats:
    """Return the statistics of a field of these batches."""
    stats, missing, records, of_lengths = RunningStats(), 0, 0, False
    for batch in batches:
        column = batch.columns[field]
        numbers, absent = _measure(column)
        of_lengths = not _is_number(column)
        stats.add(numbers.astype(np.float64))
        missing += absent
        records += len(batch)
    return FieldStats(records - missing, missing, *stats.summary(), of_lengths)
