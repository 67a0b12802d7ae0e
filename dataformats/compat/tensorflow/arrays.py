"""Operations that make arrays, or convert them to another dtype. Results are `Tensor` arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.compat.tensorflow.dtypes import as_dtype, convert, is_string, numpy_dtype
from dataformats.compat.tensorflow.sparse import SparseTensor
from dataformats.compat.tensorflow.tensor import array_of, as_tensor, tensor_of

__all__ = [
    "cast",
    "constant",
    "convert_to_tensor",
    "fill",
    "identity",
    "one_hot",
    "ones",
    "ones_like",
    "range",
    "where",
    "zeros",
    "zeros_like",
]


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    """Return a value, or a `SparseTensor`, with another dtype; floats become integers without their fraction.

    Raises:
        TypeError: Strings cannot be cast.
    """
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, dtype), x.dense_shape)
    array = array_of(x)
    if is_string(dtype) != (array.dtype == object):
        raise TypeError(f"cannot cast {array.dtype} to {as_dtype(dtype)!r}. Use tf.strings.to_number or as_string")
    return tensor_of(array.astype(numpy_dtype(dtype), copy=False))


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Any:
    """Return a Python value as numpy: integers as int32, floats as float32 by default."""
    array = np.asarray(convert(value, dtype), object if isinstance(value, bytes | str) else None)
    if shape is not None:
        array = np.full(tuple(shape), array) if array.size == 1 else array.reshape(tuple(shape))
    return tensor_of(array)


def convert_to_tensor(value: Any, dtype: Any = None, name: Any = None, **ignored: Any) -> Any:
    """Return a Python value as numpy, as `constant` does."""
    return constant(value, dtype)


def identity(input: Any, name: Any = None) -> Any:
    """Return a value as numpy."""
    return tensor_of(array_of(input))


def zeros(shape: Any, dtype: Any = "float32", name: Any = None) -> Any:
    """Return an array of zeros, or of empty strings."""
    return _filled(shape, b"" if is_string(dtype) else 0, dtype)


def ones(shape: Any, dtype: Any = "float32", name: Any = None) -> Any:
    """Return an array of ones."""
    return _filled(shape, 1, dtype)


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    return tensor_of(np.full(tuple(np.atleast_1d(np.asarray(shape, np.int64))), value, numpy_dtype(dtype)))


def zeros_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    """Return zeros in the shape of another array."""
    return zeros(array_of(input).shape, array_of(input).dtype if dtype is None else dtype)


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    """Return ones in the shape of another array."""
    return ones(array_of(input).shape, array_of(input).dtype if dtype is None else dtype)


def fill(dims: Any, value: Any, name: Any = None) -> Any:
    """Return an array of one value."""
    return _filled(dims, convert(value), array_of(value).dtype)


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None) -> Any:
    """Return the numbers from `start` up to, not including, `limit`."""
    first, last = (0, start) if limit is None else (start, limit)
    return tensor_of(convert(np.arange(first, last, delta).tolist(), dtype) if dtype else _range(first, last, delta))


def _range(first: Any, last: Any, delta: Any) -> Any:
    parts = [array_of(one).dtype for one in (first, last, delta)]
    floats = [dtype for dtype in parts if dtype.kind == "f"]  # a Python integer beside a float is one, too
    return np.arange(first, last, delta).astype(np.result_type(*(floats or parts)))


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: Any = None,
) -> Any:
    """Return arrays that are 1 at an index and 0 elsewhere; all 0 for an index that is out of range."""
    at = np.asarray(indices)
    hot = at[..., None] == np.arange(int(depth))
    kind = numpy_dtype("float32" if dtype is None else dtype)
    values = np.where(hot, 1 if on_value is None else on_value, 0 if off_value is None else off_value).astype(kind)
    return tensor_of(values if axis in (None, -1) else np.moveaxis(values, -1, axis))


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Return values of `x` where a condition is true, else of `y`; without these, the indices of the true ones."""
    if x is None and y is None:
        return as_tensor(np.argwhere(array_of(condition)))
    return tensor_of(np.where(array_of(condition), array_of(x), array_of(y)))
