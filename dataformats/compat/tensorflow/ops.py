"""The operations of TensorFlow that input pipelines use, on numpy values. Results are `Tensor` arrays."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dataformats.compat.tensorflow.data.structure import map_leaves
from dataformats.compat.tensorflow.dtypes import as_dtype, convert, is_string, numpy_dtype, string_array
from dataformats.compat.tensorflow.errors import InvalidArgumentError
from dataformats.compat.tensorflow.sparse import SparseTensor
from dataformats.compat.tensorflow.tensor import as_tensor, plain, same_shape

__all__ = [
    "abs",
    "add",
    "broadcast_to",
    "cast",
    "clip_by_value",
    "concat",
    "cond",
    "constant",
    "convert_to_tensor",
    "device",
    "divide",
    "ensure_shape",
    "equal",
    "executing_eagerly",
    "exp",
    "expand_dims",
    "fill",
    "floor",
    "function",
    "gather",
    "greater",
    "greater_equal",
    "identity",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "multiply",
    "name_scope",
    "negative",
    "not_equal",
    "numpy_function",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "pow",
    "py_function",
    "range",
    "rank",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "reshape",
    "reverse",
    "round",
    "shape",
    "size",
    "slice",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "tile",
    "transpose",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]


def _array(value: Any) -> Any:
    """Return a value as an array; bytes as one of dtype object."""
    found = convert(value)
    return np.asarray(found, object) if isinstance(found, bytes) else np.asarray(found)


def _result(array: Any) -> Any:
    """Return an array as `Tensor`, and without dimensions as its scalar."""
    found = np.asarray(array)
    return as_tensor(found) if found.ndim else found[()]


# ---- elementwise


def _unary(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(x: Any, name: Any = None) -> Any:
        return _result(function(_array(x)))

    operation.__doc__ = doc
    return operation


def _binary(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(x: Any, y: Any, name: Any = None) -> Any:
        # A Python number takes the dtype of the other argument.
        left = x if isinstance(x, int | float) else _array(x)
        return _result(function(left, y if isinstance(y, int | float) else _array(y)))

    operation.__doc__ = doc
    return operation


def _reduction(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
        array = _array(input_tensor)
        axes = tuple(int(one) for one in axis) if isinstance(axis, Sequence | np.ndarray) else axis
        return _result(np.asarray(function(array, axis=axes, keepdims=keepdims)).astype(_reduced(function, array)))

    operation.__doc__ = doc
    return operation


def _reduced(function: Callable[..., Any], array: Any) -> Any:
    return np.bool_ if function in (np.any, np.all) else array.dtype


def _mean(array: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return (
        np.floor(np.mean(array, axis=axis, keepdims=keepdims))
        if array.dtype.kind in "iu"
        else np.mean(array, axis=axis, keepdims=keepdims)
    )


abs: Callable[..., Any] = _unary(np.abs, "Return the absolute values.")
negative: Callable[..., Any] = _unary(np.negative, "Return the values with the other sign.")
square: Callable[..., Any] = _unary(np.square, "Return the squares.")
sqrt: Callable[..., Any] = _unary(np.sqrt, "Return the square roots.")
exp: Callable[..., Any] = _unary(np.exp, "Return the exponentials.")
floor: Callable[..., Any] = _unary(np.floor, "Return the values rounded down.")
round: Callable[..., Any] = _unary(np.round, "Return the values rounded, halves to the even number.")
logical_not: Callable[..., Any] = _unary(np.logical_not, "Return the negation.")
add: Callable[..., Any] = _binary(np.add, "Return the sums.")
subtract: Callable[..., Any] = _binary(np.subtract, "Return the differences.")
multiply: Callable[..., Any] = _binary(np.multiply, "Return the products.")
divide: Callable[..., Any] = _binary(np.true_divide, "Return the quotients.")
floordiv: Callable[..., Any] = _binary(np.floor_divide, "Return the quotients rounded down.")
pow: Callable[..., Any] = _binary(np.power, "Return the powers.")
minimum: Callable[..., Any] = _binary(np.minimum, "Return the smaller values.")
maximum: Callable[..., Any] = _binary(np.maximum, "Return the larger values.")
equal: Callable[..., Any] = _binary(np.equal, "Return where values are equal.")
not_equal: Callable[..., Any] = _binary(np.not_equal, "Return where values differ.")
less: Callable[..., Any] = _binary(np.less, "Return where the first value is smaller.")
less_equal: Callable[..., Any] = _binary(np.less_equal, "Return where the first value is not larger.")
greater: Callable[..., Any] = _binary(np.greater, "Return where the first value is larger.")
greater_equal: Callable[..., Any] = _binary(np.greater_equal, "Return where the first value is not smaller.")
logical_and: Callable[..., Any] = _binary(np.logical_and, "Return where both are true.")
logical_or: Callable[..., Any] = _binary(np.logical_or, "Return where one is true.")
reduce_sum: Callable[..., Any] = _reduction(np.sum, "Return sums along axes; of all values by default.")
reduce_mean: Callable[..., Any] = _reduction(_mean, "Return means along axes; of all values by default.")
reduce_max: Callable[..., Any] = _reduction(np.max, "Return the largest values along axes; of all by default.")
reduce_min: Callable[..., Any] = _reduction(np.min, "Return the smallest values along axes; of all by default.")
reduce_any: Callable[..., Any] = _reduction(np.any, "Return where any value along axes is true; of all by default.")
reduce_all: Callable[..., Any] = _reduction(np.all, "Return where all values along axes are true; of all by default.")


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    """Return a value, or a `SparseTensor`, with another dtype; floats become integers without their fraction.

    Raises:
        TypeError: Strings cannot be cast.
    """
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, dtype), x.dense_shape)
    array = _array(x)
    if is_string(dtype) != (array.dtype == object):
        raise TypeError(f"cannot cast {array.dtype} to {as_dtype(dtype)!r}. Use tf.strings.to_number or as_string")
    return _result(array.astype(numpy_dtype(dtype), copy=False))


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Any:
    """Return a Python value as numpy: integers as int32, floats as float32 by default."""
    array = np.asarray(convert(value, dtype), object if isinstance(value, bytes | str) else None)
    if shape is not None:
        array = np.full(tuple(shape), array) if array.size == 1 else array.reshape(tuple(shape))
    return _result(array)


def convert_to_tensor(value: Any, dtype: Any = None, name: Any = None, **ignored: Any) -> Any:
    """Return a Python value as numpy, as `constant` does."""
    return constant(value, dtype)


def identity(input: Any, name: Any = None) -> Any:
    """Return a value as numpy."""
    return _result(_array(input))


# ---- shapes


def shape(input: Any, out_type: Any = "int32", name: Any = None) -> Any:
    """Return the shape, as an array."""
    return as_tensor(np.array(_array(input).shape, numpy_dtype(out_type)))


def size(input: Any, out_type: Any = "int32", name: Any = None) -> Any:
    """Return the number of values."""
    return numpy_dtype(out_type).type(_array(input).size)


def rank(input: Any, name: Any = None) -> Any:
    """Return the number of dimensions."""
    return np.int32(_array(input).ndim)


def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    """Return the values in another shape; -1 in it stands for the rest.

    Raises:
        InvalidArgumentError: The shape has another number of values.
    """
    array = _array(tensor)
    wanted = tuple(np.atleast_1d(np.asarray(shape, np.int64)).tolist())
    try:
        return _result(array.reshape(wanted))
    except ValueError as error:
        raise InvalidArgumentError(
            f"cannot reshape {array.size} values, of shape {array.shape}, to {wanted}"
        ) from error


def ensure_shape(x: Any, shape: Any, name: Any = None) -> Any:
    """Return the value if it has the shape; `None` in it stands for any size.

    Raises:
        InvalidArgumentError: It has another.
    """
    same_shape(_array(x).shape, shape)
    return _result(_array(x))


def expand_dims(input: Any, axis: int, name: Any = None) -> Any:
    """Return the value with a dimension of size 1 more."""
    return _result(np.expand_dims(_array(input), axis))


def squeeze(input: Any, axis: Any = None, name: Any = None) -> Any:
    """Return the value without dimensions of size 1, or without those in `axis`."""
    return _result(np.squeeze(_array(input), None if axis is None or axis == [] else tuple(np.atleast_1d(axis))))


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = None) -> Any:
    """Return the value with its dimensions in another order, reversed by default."""
    return _result(np.transpose(_array(a), None if perm is None else tuple(perm)))


def concat(values: Any, axis: int, name: Any = None) -> Any:
    """Return arrays joined along a dimension."""
    return _result(np.concatenate([_array(value) for value in values], int(axis)))


def stack(values: Any, axis: int = 0, name: Any = None) -> Any:
    """Return arrays joined along a new dimension."""
    return _result(np.stack([_array(value) for value in values], axis))


def unstack(value: Any, num: int | None = None, axis: int = 0, name: Any = None) -> list[Any]:
    """Return the parts of an array along a dimension."""
    return [_result(part) for part in np.moveaxis(_array(value), axis, 0)]


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: Any = None, name: Any = None) -> list[Any]:
    """Return an array in so many equal parts, or in parts of these sizes, along a dimension."""
    array, sizes = _array(value), num_or_size_splits
    if np.ndim(sizes):
        lengths = [int(one) for one in sizes]
        rest = array.shape[axis] - sum(one for one in lengths if one >= 0)
        sizes = np.cumsum([rest if one < 0 else one for one in lengths])[:-1]
    return [_result(part) for part in np.split(array, sizes, axis)]


def tile(input: Any, multiples: Any, name: Any = None) -> Any:
    """Return an array repeated along its dimensions."""
    return _result(np.tile(_array(input), tuple(multiples)))


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Any:
    """Return an array repeated to a shape.

    Raises:
        InvalidArgumentError: It cannot be.
    """
    wanted = tuple(np.asarray(shape, np.int64).tolist())
    try:
        return _result(np.broadcast_to(_array(input), wanted))
    except ValueError as error:
        raise InvalidArgumentError(f"cannot repeat the shape {_array(input).shape} to {wanted}") from error


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: Any = None) -> Any:
    """Return an array padded before and behind each dimension."""
    modes = {"CONSTANT": {"constant_values": constant_values}, "REFLECT": {}, "SYMMETRIC": {}}
    if mode.upper() not in modes:
        raise ValueError(f"mode: expected 'CONSTANT', 'REFLECT' or 'SYMMETRIC', found {mode!r}")
    options: dict[str, Any] = modes[mode.upper()]
    return _result(np.pad(_array(tensor), np.asarray(paddings).tolist(), mode.lower(), **options))  # type: ignore[call-overload]  # checked above


def slice(input_: Any, begin: Any, size: Any, name: Any = None) -> Any:
    """Return a part of an array; a size of -1 stands for the rest.

    Raises:
        InvalidArgumentError: The part is not within the array.
    """
    array = _array(input_)
    starts, sizes = np.asarray(begin).tolist(), np.asarray(size).tolist()
    ends = [full if n == -1 else at + n for at, n, full in zip(starts, sizes, array.shape, strict=True)]
    if any(not 0 <= at <= end <= full for at, end, full in zip(starts, ends, array.shape, strict=True)):
        raise InvalidArgumentError(f"expected a part of the shape {array.shape}, found begin {starts} and size {sizes}")
    return _result(array[tuple(map(builtins.slice, starts, ends))])


def gather(
    params: Any, indices: Any, validate_indices: Any = None, axis: int = 0, batch_dims: int = 0, name: Any = None
) -> Any:
    """Return the parts of an array at these indices along a dimension."""
    return _result(np.take(_array(params), np.asarray(indices), axis=axis or 0))


def reverse(tensor: Any, axis: Any, name: Any = None) -> Any:
    """Return an array in reverse order along dimensions."""
    return _result(np.flip(_array(tensor), tuple(np.atleast_1d(axis))))


# ---- new arrays


def zeros(shape: Any, dtype: Any = "float32", name: Any = None) -> Any:
    """Return an array of zeros, or of empty strings."""
    return _filled(shape, b"" if is_string(dtype) else 0, dtype)


def ones(shape: Any, dtype: Any = "float32", name: Any = None) -> Any:
    """Return an array of ones."""
    return _filled(shape, 1, dtype)


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    return _result(np.full(tuple(np.atleast_1d(np.asarray(shape, np.int64))), value, numpy_dtype(dtype)))


def zeros_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    """Return zeros in the shape of another array."""
    return zeros(_array(input).shape, _array(input).dtype if dtype is None else dtype)


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    """Return ones in the shape of another array."""
    return ones(_array(input).shape, _array(input).dtype if dtype is None else dtype)


def fill(dims: Any, value: Any, name: Any = None) -> Any:
    """Return an array of one value."""
    return _filled(dims, convert(value), _array(value).dtype)


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None) -> Any:
    """Return the numbers from `start` up to, not including, `limit`."""
    first, last = (0, start) if limit is None else (start, limit)
    return _result(convert(np.arange(first, last, delta).tolist(), dtype) if dtype else _range(first, last, delta))


def _range(first: Any, last: Any, delta: Any) -> Any:
    parts = [_array(one).dtype for one in (first, last, delta)]
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
    return _result(values if axis in (None, -1) else np.moveaxis(values, -1, axis))


# ---- choices and functions


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Return values of `x` where a condition is true, else of `y`; without these, the indices of the true ones."""
    if x is None and y is None:
        return as_tensor(np.argwhere(_array(condition)))
    return _result(np.where(_array(condition), _array(x), _array(y)))


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: Any = None) -> Any:
    """Return `true_fn()` if the condition is true, else `false_fn()`."""
    return true_fn() if pred else false_fn()


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    """Return the values limited to a range."""
    array = _array(t)
    return _result(np.clip(array, clip_value_min, clip_value_max).astype(array.dtype, copy=False))


def py_function(func: Callable[..., Any], inp: Any, Tout: Any = None, name: Any = None) -> Any:  # its name
    """Return `func(*inp)`, with the dtypes of `Tout`."""
    return _typed(func(*(as_tensor(_array(one) if isinstance(one, list | int | float) else one) for one in inp)), Tout)


def numpy_function(
    func: Callable[..., Any], inp: Any, Tout: Any = None, stateful: bool = True, name: Any = None
) -> Any:  # its name
    """Return `func(*inp)`, with the dtypes of `Tout`."""
    return _typed(func(*(plain(one) for one in inp)), Tout)


def _typed(found: Any, kinds: Any) -> Any:
    if isinstance(kinds, list | tuple):
        return [_typed(one, kind) for one, kind in zip(found, kinds, strict=True)]
    if kinds is None or found is None:
        return found
    return _result(plain(convert(found, None if is_string(kinds) else kinds)))


def function(func: Any = None, **ignored: Any) -> Any:
    """Return the function: there is no graph to make of it."""
    return func if func is not None else lambda decorated: decorated


@contextlib.contextmanager
def name_scope(*ignored: Any, **named: Any) -> Iterator[str]:
    """A context without effect."""
    yield ""


device = name_scope
"""A context without effect."""


def executing_eagerly() -> bool:
    """Return True: functions run at once."""
    return True


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """Return a structure with `func(value)` in place of each value."""
    return map_leaves(func, *structures)


def strings_of(function: Callable[[bytes], bytes], values: Any) -> Any:
    """Return `function` of each of some strings."""
    if isinstance(values, bytes | str):
        return function(values if isinstance(values, bytes) else values.encode())
    array = _array(values)
    return as_tensor(string_array([function(one) for one in array.reshape(-1).tolist()], array.shape))
