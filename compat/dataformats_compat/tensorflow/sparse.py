"""`tf.sparse`: arrays that store only some elements, such as the values of a `VarLenFeature`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import DType, as_dtype, convert, string_array
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.tensor import TensorShape, array_of, as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SparseTensor", "to_dense", "to_indicator"]

__getattr__: Any = missing_from(__name__)


class SparseTensor:
    """An array that stores only some of its elements.

    Args:
        indices: int64[n, rank], the place of each stored element, in row-major order.
        values: The elements, (n,).
        dense_shape: int64[rank].

    Attributes:
        indices: See above.
        values: See above.
        dense_shape: See above.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.sparse.to_dense(tf.SparseTensor([[0, 1], [2, 0]], [7, 8], [3, 2])).tolist()
        [[0, 7], [0, 0], [8, 0]]
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        sizes = np.asarray(dense_shape, np.int64).reshape(-1)
        self.dense_shape: Any = as_tensor(sizes)
        self.indices: Any = as_tensor(np.asarray(indices, np.int64).reshape(-1, len(sizes)))
        self.values: Any = as_tensor(np.atleast_1d(array_of(values)))

    def __repr__(self) -> str:
        return f"SparseTensor({self.indices.tolist()}, {self.values.tolist()}, {self.dense_shape.tolist()})"

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return as_dtype(self.values.dtype)

    @property
    def shape(self) -> TensorShape:
        """`dense_shape` as a shape."""
        return TensorShape(self.dense_shape.tolist())

    def get_shape(self) -> TensorShape:
        """Return `dense_shape` as a shape."""
        return self.shape

    def to_dense(self, default_value: Any = None) -> Any:
        """Return the array; elements that are not stored are `default_value`, or 0 or `b""`."""
        return to_dense(self, default_value)


def to_dense(sp_input: SparseTensor, default_value: Any = None, validate_indices: bool = True, name: Any = None) -> Any:
    """Return the whole array; elements that are not stored are `default_value`, or 0 or `b""`.

    Args:
        sp_input: The stored elements.
        default_value: A scalar.
        validate_indices: Refuse repeated indices, and those that are not in row-major order.

    Raises:
        InvalidArgumentError: An index is out of range, repeated, or out of order.
    """
    values, stored = array_of(sp_input.values), array_of(sp_input.indices)
    fill = (b"" if values.dtype == object else 0) if default_value is None else convert(default_value)
    shape = tuple(sp_input.dense_shape.tolist())
    dense: Any = np.full(shape, fill, values.dtype)
    outside = ((stored < 0) | (stored >= array_of(sp_input.dense_shape))).any(axis=1)
    if outside.any():
        index = stored[outside][0].tolist()
        raise InvalidArgumentError(f"index {index} is outside of the shape {list(sp_input.shape)}")
    places = np.ravel_multi_index(tuple(stored.T), shape)
    if validate_indices and (np.diff(places) <= 0).any():
        index = stored[1:][np.diff(places) <= 0][0].tolist()
        raise InvalidArgumentError(f"index {index} is repeated or out of order: pass indices in row-major order")
    dense.reshape(-1)[places] = values
    return as_tensor(dense)


def to_indicator(sp_input: SparseTensor, vocab_size: Any, name: Any = None) -> Any:
    """Return an array of bools that is true at each value: the values are the indices of its last dimension.

    Raises:
        InvalidArgumentError: A value is not in [0, vocab_size).
    """
    values, size = array_of(sp_input.values), int(vocab_size)
    if ((values < 0) | (values >= size)).any():
        raise InvalidArgumentError(f"to_indicator: expected values in [0, {size}), found {values.tolist()!r:.80}")
    found = np.zeros((*sp_input.shape[:-1], size), bool)
    found[(*array_of(sp_input.indices)[:, :-1].T, values)] = True
    return as_tensor(found)


def of_rows(values: NDArray[Any], counts: NDArray[np.int64]) -> SparseTensor:
    """Return values row after row, `counts` of them in each, as a matrix."""
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return SparseTensor(np.stack([rows, columns], 1), values, np.array([len(counts), counts.max(initial=0)]))


def of_one(values: NDArray[Any]) -> SparseTensor:
    """Return values as a vector without gaps."""
    return SparseTensor(np.arange(len(values)), values, np.array([len(values)]))


def stack(tensors: Sequence[SparseTensor]) -> SparseTensor:
    """Return the tensors as one with a first dimension more, large enough for each."""
    numbers = np.repeat(np.arange(len(tensors)), [len(one.values) for one in tensors])
    indices = np.concatenate([one.indices for one in tensors])
    values = [one.values for one in tensors]
    joined = np.concatenate(values) if values[0].dtype != object else string_array([v for one in values for v in one])
    largest = np.max([one.dense_shape for one in tensors], axis=0)
    return SparseTensor(np.column_stack([numbers, indices]), joined, np.array([len(tensors), *largest]))


def unstack(tensor: SparseTensor) -> list[SparseTensor]:
    """Return the tensors along the first dimension."""
    rows = tensor.indices[:, 0]
    found = [np.flatnonzero(rows == row) for row in range(tensor.shape[0])]
    return [SparseTensor(tensor.indices[at, 1:], tensor.values[at], tensor.dense_shape[1:]) for at in found]
