"""Stored features to `SparseTensor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.internals import INTEGERS
from dataformats_compat.tensorflow import sparse
from dataformats_compat.tensorflow.columns import Found, ParsedFeature
from dataformats_compat.tensorflow.features import SparseFeature

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Indexed", "Sparse"]


class Sparse(ParsedFeature):
    """A `VarLenFeature`."""

    group = 0

    def batch(self, found: Found) -> sparse.SparseTensor:
        return sparse.of_rows(*self.values(found[self.name]))

    def one(self, found: Found) -> Any:
        return sparse.of_one(self.values(found[self.name])[0])

    def one_of_values(self, values: Any) -> Any:
        return sparse.of_one(np.empty(0, self.dtype.dtype) if values is None else values)


class Indexed(ParsedFeature):
    """A `SparseFeature`."""

    group = 3

    def __init__(self, name: str, feature: SparseFeature) -> None:
        super().__init__(name, feature)
        index_keys, sizes = _listed(feature.index_key), _listed(feature.size)
        if not index_keys or not all(index_keys) or not feature.value_key:
            raise ValueError(f"feature {name!r}: expected an index_key and a value_key, found {feature}")
        if len(index_keys) != len(sizes):
            raise ValueError(f"feature {name!r}: expected a size for each of {index_keys}, found {sizes}")
        self.keys: list[str] = [feature.value_key, *index_keys]
        self._sizes = [int(size) for size in sizes]
        self._sorted = feature.already_sorted

    def batch(self, found: Found) -> sparse.SparseTensor:
        value_key, *index_keys = self.keys
        values, counts = self.values(found[value_key])
        records = np.repeat(np.arange(len(counts)), counts)
        columns = [
            self._indices(found, key, size, counts, records) for key, size in zip(index_keys, self._sizes, strict=True)
        ]
        indices = np.column_stack([records, *columns])
        if not self._sorted:
            order = np.lexsort(indices.T[::-1])
            indices, values = indices[order], values[order]
        return sparse.SparseTensor(indices, values, np.array([len(counts), *self._sizes]))

    def one(self, found: Found) -> sparse.SparseTensor:
        batch = self.batch(found)
        return sparse.SparseTensor(batch.indices[:, 1:], batch.values, batch.dense_shape[1:])

    def one_of_values(self, values: Any) -> None:
        """Return None: the values of one feature do not suffice."""

    def output(self) -> None:
        """Return None: there is no fast path."""

    def _indices(
        self, found: Found, key: str, size: int, counts: NDArray[np.int64], records: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the indices of all values along one dimension."""
        indices, n_indices = self.values(found[key], INTEGERS)
        wrong = n_indices != counts
        if wrong.any():
            row = int(wrong.argmax())
            self.raise_misfit(row, f"{counts[row]} indices in {key!r}, one for each value", f"{n_indices[row]}")
        outside = (indices < 0) | (indices >= size)
        if outside.any():
            at = int(outside.argmax())
            self.raise_misfit(int(records[at]), f"indices in {key!r} within [0, {size})", f"{indices[at]}")
        return indices


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
