"""Operations that make arrays, or convert them to another dtype. Results are `Tensor` arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import as_dtype, convert, is_string, numpy_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.sparse import SparseTensor
from dataformats_compat.tensorflow.tensor import Tensor, array_of, as_tensor, like, of_one_dtype, plain, tensor_of

__all__ = [
    "bitcast", "cast", "constant", "convert_to_tensor", "fill", "identity", "one_hot", "ones", "ones_like", "range",
    "saturate_cast", "where", "zeros", "zeros_like",
]  # fmt: skip


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    """Return a value, or a `SparseTensor` or `RaggedTensor`, with another dtype; integers have no fraction.

    Raises:
        TypeError: Strings cannot be cast.
    """
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, dtype), x.dense_shape)
    if isinstance(x, RaggedTensor):
        return RaggedTensor(cast(x.values, dtype), x.row_splits)
    array = array_of(x)
    if is_string(dtype) != (array.dtype == object):
        raise TypeError(f"cannot cast {array.dtype} to {as_dtype(dtype)!r}. Use tf.strings.to_number or as_string")
    with np.errstate(all="ignore"):
        real = array.real if array.dtype.kind == "c" and not as_dtype(dtype).is_complex else array
        return tensor_of(real.astype(numpy_dtype(dtype), copy=False))


def saturate_cast(value: Any, dtype: Any, name: Any = None) -> Any:
    """Return a value with another dtype; numbers outside of its range become the nearest ones in it."""
    kind = numpy_dtype(dtype)
    limits: Any = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
    return cast(np.clip(array_of(value), limits.min, limits.max), dtype)


def bitcast(input: Any, type: Any, name: Any = None) -> Any:
    """Return the bytes of a value as another dtype; the last dimension joins or divides numbers of another size.

    Raises:
        InvalidArgumentError: The last dimension does not fit.
    """
    array, kind = array_of(input), numpy_dtype(type)
    size, wanted = array.dtype.itemsize, kind.itemsize
    if size >= wanted:
        shape = array.shape if size == wanted else (*array.shape, size // wanted)
    elif array.ndim and array.shape[-1] == wanted // size:
        shape = array.shape[:-1]
    else:
        raise InvalidArgumentError(f"bitcast: expected {wanted // size} in the last dimension, found {array.shape}")
    return tensor_of(np.frombuffer(array.tobytes(), kind).reshape(shape))


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Any:
    """Return a Python value as a tensor: integers as int32, floats as float32 by default.

    Raises:
        TypeError: A Python value does not fit the dtype.
    """
    if isinstance(value, SparseTensor | RaggedTensor):
        return value
    array = array_of(value) if dtype is None else like(value, numpy_dtype(dtype))
    if shape is not None:
        array = np.full(tuple(shape), array) if array.size == 1 else array.reshape(tuple(shape))
    return tensor_of(array)


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: Any = None, preferred_dtype: Any = None
) -> Any:
    """Return a value as a tensor, as `constant` does.

    Raises:
        ValueError: It is a tensor of another dtype.
    """
    if isinstance(value, Tensor) and dtype is not None and value.dtype != as_dtype(dtype):
        raise ValueError(f"expected a tensor of {as_dtype(dtype)!r}, found {value.dtype!r}. Cast it with tf.cast")
    hint = preferred_dtype if dtype_hint is None else dtype_hint
    if dtype is None and hint is not None:
        try:
            return constant(value, hint)
        except (TypeError, ValueError):
            return constant(value)
    return constant(value, dtype)


def identity(input: Any, name: Any = None) -> Any:
    """Return a value as a tensor."""
    return constant(input)


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
    ends = [plain(one) for one in (first, last, delta)]
    return tensor_of(np.arange(*ends).astype(numpy_dtype(dtype)) if dtype else _range(*ends))


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
    """Return arrays that are 1 at an index and 0 elsewhere; all 0 for an index that is out of range.

    Raises:
        TypeError: The values have another dtype than `dtype`, or than each other.
    """
    given = [as_dtype(array_of(one).dtype) for one in (on_value, off_value) if one is not None]
    chosen = as_dtype(dtype) if dtype is not None else given[0] if given else as_dtype("float32")
    if dtype is None and len(set(given)) > 1:
        raise TypeError(f"on_value and off_value: expected one dtype, found {given[0]!r} and {given[1]!r}")
    on, off = (like(default if one is None else one, chosen.dtype) for one, default in ((on_value, 1), (off_value, 0)))
    hot = array_of(indices)[..., None] == np.arange(int(depth))
    values = np.where(hot, on, off)
    return tensor_of(values if axis in (None, -1) else np.moveaxis(values, -1, int(axis)))


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Return values of `x` where a condition is true, else of `y`; without these, the indices of the true ones.

    Raises:
        InvalidArgumentError: `x` and `y` are tensors of two dtypes.
    """
    if x is None and y is None:
        return as_tensor(np.argwhere(array_of(condition)))
    left, right = of_one_dtype("where", x, y)
    return tensor_of(np.where(like(condition, np.dtype(bool)), left, right))
