"""Operations on each element, and reductions, which TensorFlow has as `tf.NAME` and as `tf.math.NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import numpy_dtype
from dataformats_compat.tensorflow.operators import kind_of
from dataformats_compat.tensorflow.tensor import binary, operands, tensor_of, unary

__all__ = [
    "abs", "add", "argmax", "argmin", "clip_by_value", "cumsum", "divide", "equal", "exp", "floor",
    "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or", "maximum",
    "minimum", "multiply", "negative", "not_equal", "pow", "reduce_all", "reduce_any", "reduce_max", "reduce_mean",
    "reduce_min", "reduce_prod", "reduce_sum", "round", "sign", "sqrt", "square", "subtract",

]  # fmt: skip


def elementwise(operation: str, function: Callable[..., Any], kinds: str, doc: str) -> Callable[..., Any]:
    """Return an operation of one value, for dtypes of some kinds."""

    def apply(x: Any, name: Any = None) -> Any:
        return unary(operation, function, kinds, x)

    apply.__doc__ = doc
    return apply


def of_two(operation: str, doc: str) -> Callable[..., Any]:
    """Return an operation of `OPERATORS`."""

    def apply(x: Any, y: Any, name: Any = None) -> Any:
        return binary(operation, x, y)

    apply.__doc__ = doc
    return apply


def _reduction(operation: str, function: Callable[..., Any], kinds: str, doc: str) -> Callable[..., Any]:
    def apply(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
        axes = tuple(int(one) for one in axis) if isinstance(axis, Sequence) or np.ndim(axis) else axis
        return unary(operation, lambda array: function(array, axis=axes, keepdims=bool(keepdims)), kinds, input_tensor)

    apply.__doc__ = doc
    return apply


def _in_its_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda array, **named: function(array, dtype=array.dtype, **named)


def _mean(array: Any, axis: Any, keepdims: bool) -> Any:
    if array.dtype.kind not in "iu":
        mean = (
            np.mean(array, axis=axis, keepdims=keepdims)
            if array.size
            else np.sum(array, axis, keepdims=keepdims) / np.nan
        )
        return np.asarray(mean).astype(array.dtype)
    wide = array.dtype if array.dtype.itemsize == 8 else np.dtype(np.int64)
    total = np.sum(array, axis=axis, keepdims=keepdims, dtype=wide)
    count = wide.type(max(array.size // max(np.size(total), 1), 1))
    return (np.sign(total) * (np.abs(total) // count)).astype(array.dtype)  # towards zero


def _largest(array: Any, axis: Any, keepdims: bool) -> Any:
    lowest = -np.inf if kind_of(array.dtype) == "f" else np.iinfo(array.dtype).min
    return np.max(array, axis=axis, keepdims=keepdims, initial=lowest)


def _smallest(array: Any, axis: Any, keepdims: bool) -> Any:
    highest = np.inf if kind_of(array.dtype) == "f" else np.iinfo(array.dtype).max
    return np.min(array, axis=axis, keepdims=keepdims, initial=highest)


abs: Callable[..., Any] = elementwise("abs", np.abs, "ifc", "Return the absolute values.")
negative: Callable[..., Any] = elementwise("negative", np.negative, "ifc", "Return the values with the other sign.")
sign: Callable[..., Any] = elementwise("sign", np.sign, "if", "Return -1, 0 or 1 for each value.")
square: Callable[..., Any] = elementwise("square", np.square, "uifc", "Return the squares.")
sqrt: Callable[..., Any] = elementwise("sqrt", np.sqrt, "fc", "Return the square roots.")
exp: Callable[..., Any] = elementwise("exp", np.exp, "fc", "Return the exponentials.")
floor: Callable[..., Any] = elementwise("floor", np.floor, "f", "Return the values rounded down.")
round: Callable[..., Any] = elementwise("round", np.round, "uif", "Return the values rounded, halves to even.")
logical_not: Callable[..., Any] = elementwise("logical_not", np.logical_not, "b", "Return the negation.")
add: Callable[..., Any] = of_two("add", "Return the sums.")
subtract: Callable[..., Any] = of_two("subtract", "Return the differences.")
multiply: Callable[..., Any] = of_two("multiply", "Return the products.")
divide: Callable[..., Any] = of_two("divide", "Return the quotients: floats.")
pow: Callable[..., Any] = of_two("pow", "Return the powers.")
minimum: Callable[..., Any] = of_two("minimum", "Return the smaller values.")
maximum: Callable[..., Any] = of_two("maximum", "Return the larger values.")
equal: Callable[..., Any] = of_two("equal", "Return where values are equal.")
not_equal: Callable[..., Any] = of_two("not_equal", "Return where values differ.")
less: Callable[..., Any] = of_two("less", "Return where the first value is smaller.")
less_equal: Callable[..., Any] = of_two("less_equal", "Return where the first value is not larger.")
greater: Callable[..., Any] = of_two("greater", "Return where the first value is larger.")
greater_equal: Callable[..., Any] = of_two("greater_equal", "Return where the first value is not smaller.")
logical_and: Callable[..., Any] = of_two("logical_and", "Return where both are true.")
logical_or: Callable[..., Any] = of_two("logical_or", "Return where one is true.")
reduce_sum: Callable[..., Any] = _reduction(
    "reduce_sum", _in_its_dtype(np.sum), "uifc", "Return sums along axes, or of all values."
)
reduce_prod: Callable[..., Any] = _reduction(
    "reduce_prod", _in_its_dtype(np.prod), "uifc", "Return products along axes, or of all."
)
reduce_mean: Callable[..., Any] = _reduction("reduce_mean", _mean, "uifc", "Return means along axes, or of all.")
reduce_max: Callable[..., Any] = _reduction("reduce_max", _largest, "uif", "Return the largest along axes, or of all.")
reduce_min: Callable[..., Any] = _reduction(
    "reduce_min", _smallest, "uif", "Return the smallest along axes, or of all."
)
reduce_any: Callable[..., Any] = _reduction(
    "reduce_any", np.any, "b", "Return where any along axes, or of all, is true."
)
reduce_all: Callable[..., Any] = _reduction("reduce_all", np.all, "b", "Return where all along axes, or all, are true.")


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    """Return the values limited to a range."""
    array, low, high = operands(t, clip_value_min, clip_value_max)
    return binary("maximum", binary("minimum", tensor_of(array), high), low)


def argmax(input: Any, axis: Any = None, output_type: Any = "int64", name: Any = None) -> Any:
    """Return the index of the largest value along a dimension, the first by default."""
    return _index_of(np.argmax, input, axis, output_type)


def argmin(input: Any, axis: Any = None, output_type: Any = "int64", name: Any = None) -> Any:
    """Return the index of the smallest value along a dimension, the first by default."""
    return _index_of(np.argmin, input, axis, output_type)


def _index_of(function: Callable[..., Any], values: Any, axis: Any, output_type: Any) -> Any:
    kind = numpy_dtype(output_type)
    return unary(function.__name__, lambda array: function(array, int(axis or 0)).astype(kind), "buif", values)


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: Any = None) -> Any:
    """Return the sums of the values up to each; from each to the last, if `reverse`; without each, if `exclusive`."""

    def sums(array: Any) -> Any:
        ordered = np.flip(array, axis) if reverse else array
        found = np.cumsum(ordered, axis=int(axis), dtype=array.dtype)
        if exclusive:
            found = found - ordered if array.dtype.kind != "f" else _shifted(found, int(axis))
        return np.flip(found, axis) if reverse else found

    return unary("cumsum", sums, "uifc", x)


def _shifted(sums: Any, axis: int) -> Any:
    moved = np.roll(sums, 1, axis)
    np.moveaxis(moved, axis, 0)[:1] = 0
    return moved
