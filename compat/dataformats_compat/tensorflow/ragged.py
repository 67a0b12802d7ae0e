"""`tf.RaggedTensor`: rows that differ in length, such as the values of a `RaggedFeature`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import DType, as_dtype, convert
from dataformats_compat.tensorflow.missing import missing, missing_from
from dataformats_compat.tensorflow.tensor import TensorShape, array_of, as_tensor, like, tensor_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RaggedTensor", "constant", "stack"]

__getattr__: Any = missing_from(__name__)


class RaggedTensor:
    """Rows that differ in length.

    `dataformats.Ragged(tensor.values, tensor.row_splits)` is the column of the same rows.

    Args:
        values: All rows one after the other: an array, or another `RaggedTensor`.
        row_splits: int32 or int64[n + 1]; row i is `values[row_splits[i]:row_splits[i + 1]]`.

    Attributes:
        values: See above.
        row_splits: See above.

    Example:
        >>> import numpy as np
        >>> import dataformats_compat.tensorflow as tf
        >>> rows = tf.RaggedTensor.from_row_lengths(np.arange(5), [2, 0, 3])
        >>> rows.to_list(), rows[2].tolist()
        ([[0, 1], [], [2, 3, 4]], [2, 3, 4])
        >>> rows.to_tensor(-1).tolist()
        [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
    """

    def __init__(self, values: NDArray[Any] | RaggedTensor, row_splits: NDArray[Any]) -> None:
        self.values: Any = as_tensor(values)
        self.row_splits: Any = as_tensor(row_splits)

    def __getattr__(self, name: str) -> Any:
        raise missing(f"RaggedTensor.{name}")

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Return rows that begin and end at these positions.

        Raises:
            ValueError: They do not begin at 0, decrease, or do not end with the values.
        """
        values = values if isinstance(values, RaggedTensor) else array_of(values)
        splits = np.asarray(row_splits)
        splits = splits if splits.dtype == np.int32 else splits.astype(np.int64)
        if not len(splits) or splits[0] != 0 or (np.diff(splits) < 0).any() or splits[-1] != len(values):
            found = splits.tolist()
            raise ValueError(f"expected row splits that grow from 0 to {len(values)}, the values, found {found}")
        return cls(values, splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Return rows of these lengths."""
        lengths = np.asarray(row_lengths)
        return cls.from_row_splits(values, _splits(lengths, np.int32 if lengths.dtype == np.int32 else np.int64))

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return a row, a `RaggedTensor` of a slice of the rows, or an item of a row: `tensor[3, 0]`."""
        if isinstance(index, tuple):
            found = self[index[0]]
            return found if len(index) == 1 else found[index[1:]]
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise IndexError(f"expected a slice of consecutive rows, found {index}")
            splits = self.row_splits[start : max(start, stop) + 1]
            return RaggedTensor(self.values[int(splits[0]) : int(splits[-1])], splits - splits[0])
        row = range(len(self))[index]
        return self.values[int(self.row_splits[row]) : int(self.row_splits[row + 1])]

    def __repr__(self) -> str:
        return f"<tf.RaggedTensor {self.to_list()}>"

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return as_dtype(self.flat_values.dtype)

    @property
    def flat_values(self) -> NDArray[Any]:
        """The innermost values."""
        flat: NDArray[Any] = self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values
        return flat

    @property
    def nested_row_splits(self) -> tuple[NDArray[Any], ...]:
        """The row splits of all ragged dimensions, the outermost first."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensor) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> TensorShape:
        """The sizes; `None` for ragged dimensions."""
        return TensorShape((len(self), *[None] * self.ragged_rank, *self.flat_values.shape[1:]))

    def nrows(self, name: Any = None) -> Any:
        """Return the number of rows."""
        return as_tensor(np.array(len(self), self.row_splits.dtype))

    def row_lengths(self) -> Any:
        """Return the length of each row."""
        return as_tensor(np.diff(self.row_splits))

    def row_starts(self) -> Any:
        """Return the begin of each row."""
        return self.row_splits[:-1]

    def row_limits(self) -> Any:
        """Return the end of each row."""
        return self.row_splits[1:]

    def value_rowids(self) -> Any:
        """Return the row of each value."""
        return as_tensor(np.repeat(np.arange(len(self), dtype=self.row_splits.dtype), self.row_lengths()))

    def bounding_shape(self) -> Any:
        """Return the shape of `to_tensor()`."""
        inner = self.values.bounding_shape()[1:] if isinstance(self.values, RaggedTensor) else self.values.shape[1:]
        sizes = [len(self), array_of(self.row_lengths()).max(initial=0), *inner]
        return as_tensor(np.array(sizes, self.row_splits.dtype))

    def numpy(self) -> Any:
        """Return an array of all values if the rows are equally long, else an object array of the rows."""
        rows = [self[row].numpy() if self.ragged_rank > 1 else self[row] for row in range(len(self))]
        if rows and all(row.shape == rows[0].shape and row.dtype == rows[0].dtype for row in rows):
            return np.stack(rows)
        found = np.empty(len(rows), object)
        for number, row in enumerate(rows):
            found[number] = row
        return found

    def to_list(self) -> list[Any]:
        """Return the rows as nested lists."""
        rows = (self[row] for row in range(len(self)))
        return [row.to_list() if isinstance(row, RaggedTensor) else row.tolist() for row in rows]

    def to_tensor(self, default_value: Any = None, name: Any = None, shape: Any = None) -> Any:
        """Return a dense array; short rows are filled up with `default_value`, or 0 or `b""`.

        Args:
            default_value: A scalar.
            shape: Its shape; `None`, and `None` in it, stand for the longest row. Longer rows are cut off.
        """
        fill = (b"" if self.flat_values.dtype == object else 0) if default_value is None else convert(default_value)
        bounds = self.bounding_shape().tolist()
        wanted = [*shape, *bounds[len(shape) :]] if shape is not None else bounds
        sizes = [bound if size is None or size < 0 else size for size, bound in zip(wanted, bounds, strict=True)]
        dense = np.full(sizes, fill, self.flat_values.dtype)
        _fill(dense, self)
        return as_tensor(dense)


def _fill(dense: NDArray[Any], rows: Any) -> None:
    for place, row in zip(dense, (rows[number] for number in range(len(rows))), strict=False):
        if isinstance(row, RaggedTensor):
            _fill(place, row)
        else:
            part = row[tuple(map(slice, place.shape))]
            place[tuple(map(slice, part.shape))] = part


def constant(pylist: Any, dtype: Any = None, name: Any = None) -> Any:
    """Return nested lists as a `RaggedTensor`: each list in a list is a row.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.ragged.constant([[1, 2], [], [3]]).row_splits.tolist()
        [0, 2, 2, 3]
    """
    values, splits = list(pylist), []
    while any(isinstance(one, list | tuple | np.ndarray) for one in values):
        splits.append(np.cumsum([0, *map(len, values)]))
        values = [item for row in values for item in row]
    found: Any = array_of(values) if values or dtype is not None else np.zeros(0, np.float32)
    found = found if dtype is None else like(values, as_dtype(dtype).dtype)
    for one in reversed(splits):
        found = RaggedTensor(found, one)
    return tensor_of(found) if not splits else found


def stack(tensors: Sequence[RaggedTensor | NDArray[Any]]) -> RaggedTensor:
    """Return arrays or ragged tensors as the rows of one with a ragged dimension more."""
    lengths = [len(one) for one in tensors]
    first = tensors[0]
    return of_rows(_joined(tensors), lengths, first.row_splits.dtype if isinstance(first, RaggedTensor) else np.int64)


def _joined(tensors: Sequence[Any]) -> Any:
    if not isinstance(tensors[0], RaggedTensor):
        return np.concatenate(tensors)
    lengths = np.concatenate([one.row_lengths() for one in tensors])
    return of_rows(_joined([one.values for one in tensors]), lengths, tensors[0].row_splits.dtype)


def of_rows(values: Any, lengths: Any, dtype: Any) -> RaggedTensor:
    """Return values in rows of these lengths, with row splits of a dtype."""
    return RaggedTensor(values, _splits(lengths, dtype))


def _splits(lengths: Any, dtype: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
