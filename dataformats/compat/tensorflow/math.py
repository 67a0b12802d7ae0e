"""`tf.math`: operations on each element, and reductions. Results are `Tensor` arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataformats.compat.tensorflow.tensor import array_of, tensor_of

__all__ = [
    "abs",
    "add",
    "clip_by_value",
    "divide",
    "equal",
    "exp",
    "floor",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "round",
    "sqrt",
    "square",
    "subtract",
]


def _unary(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(x: Any, name: Any = None) -> Any:
        return tensor_of(function(array_of(x)))

    operation.__doc__ = doc
    return operation


def _binary(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(x: Any, y: Any, name: Any = None) -> Any:
        # A Python number takes the dtype of the other argument.
        left = x if isinstance(x, int | float) else array_of(x)
        return tensor_of(function(left, y if isinstance(y, int | float) else array_of(y)))

    operation.__doc__ = doc
    return operation


def _reduction(function: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def operation(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
        array = array_of(input_tensor)
        axes = tuple(int(one) for one in axis) if isinstance(axis, Sequence | np.ndarray) else axis
        return tensor_of(np.asarray(function(array, axis=axes, keepdims=keepdims)).astype(_reduced(function, array)))

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


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    """Return the values limited to a range."""
    array = array_of(t)
    return tensor_of(np.clip(array, clip_value_min, clip_value_max).astype(array.dtype, copy=False))
