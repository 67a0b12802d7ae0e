"""Stored features to `RaggedTensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.internals import INTEGERS, MISSING, FeatureColumn, Output
from dataformats_compat.tensorflow import ragged
from dataformats_compat.tensorflow.columns import KIND_NAMES, Found, ParsedFeature
from dataformats_compat.tensorflow.features import (
    RaggedFeature,
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    UniformRowLength,
    ValueRowIds,
)
from dataformats_compat.tensorflow.ragged import RaggedTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rows"]


class Rows(ParsedFeature):
    """A `RaggedFeature`."""

    group = 2

    def __init__(self, name: str, feature: RaggedFeature) -> None:
        super().__init__(name, feature)
        self._value_key = feature.value_key or name
        self._partitions = feature.partitions
        self.splits: Any = feature.row_splits_dtype.dtype
        self.keys: list[str] = [
            self._value_key,
            *(part.key for part in self._partitions if not isinstance(part, UniformRowLength)),
        ]

    def batch(self, found: Found) -> RaggedTensor:
        values, counts = self.values(found[self._value_key])
        if not self._partitions:
            return self.ragged(values, counts)
        ends = np.cumsum(counts)
        parts = [values[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
        rows = [self._partitioned(part, found, number) for number, part in enumerate(parts)]
        if not rows:
            empty: Any = values
            for part in reversed(self._partitions):
                uniform = isinstance(part, UniformRowLength) and isinstance(empty, np.ndarray)
                empty = empty.reshape(0, part.length, *empty.shape[1:]) if uniform else self._no_rows(empty)
            return self._no_rows(empty)
        return ragged.stack(rows)

    def _no_rows(self, values: Any) -> RaggedTensor:
        return RaggedTensor(values, np.zeros(1, self.splits))

    def one(self, found: Found) -> Any:
        values, _ = self.values(found[self._value_key])
        return self._partitioned(values, found, 0) if self._partitions else values

    def one_of_values(self, values: Any) -> Any:
        return np.empty(0, self.dtype.dtype) if values is None else values

    def output(self) -> Output | None:
        return None if self._partitions else super().output()

    def ragged(self, values: Any, counts: NDArray[np.int64]) -> RaggedTensor:
        """Return values in rows of these lengths."""
        return ragged.of_rows(values, counts, self.splits)

    def _partitioned(self, values: Any, found: Found, row: int) -> Any:
        for part in reversed(self._partitions):
            if isinstance(part, UniformRowLength) and isinstance(values, np.ndarray):
                if len(values) % max(1, part.length):
                    self.raise_misfit(row, f"a multiple of {part.length} values", f"{len(values)}")
                values = values.reshape(-1, part.length, *values.shape[1:])
                continue
            if isinstance(part, UniformRowLength):
                lengths = np.full(len(values) // max(1, part.length), part.length)
            else:
                lengths = _LENGTHS[type(part)](self._numbers(found[part.key], row), len(values))
            if (lengths < 0).any() or lengths.sum() != len(values):
                self.raise_misfit(
                    row, f"rows that divide {len(values)} values", f"{part} with lengths {lengths.tolist()}"
                )
            values = self.ragged(values, lengths)
        return values

    def _numbers(self, stored: FeatureColumn, row: int) -> NDArray[np.int64]:
        kind = int(stored.kinds[row])
        if kind not in (INTEGERS, MISSING, -1):
            self.raise_misfit(row, "tf.int64 values as a partition", f"{KIND_NAMES[kind]} values")
        numbers: NDArray[np.int64] = stored.take(np.array([row])).numbers(INTEGERS)
        return numbers


_LENGTHS: dict[type, Callable[[NDArray[np.int64], int], NDArray[np.int64]]] = {
    RowSplits: lambda splits, n: np.diff(splits),
    RowLengths: lambda lengths, n: lengths,
    RowStarts: lambda starts, n: np.diff(starts, append=n),
    RowLimits: lambda limits, n: np.diff(limits, prepend=0),
    ValueRowIds: lambda rows, n: np.bincount(rows) if len(rows) and rows.min() >= 0 else rows,
}
