"""The operations of two arrays of one dtype, as TensorFlow's kernels compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats_compat.tensorflow.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OPERATORS", "kind_of"]


def kind_of(dtype: Any) -> str:
    """Return the kind of a numpy dtype: `"f"` for bfloat16, too."""
    kind: str = dtype.kind
    return "f" if kind == "V" and dtype.name == "bfloat16" else kind


def _true_divide(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    return np.true_divide(x, y, dtype=np.float32 if x.dtype.itemsize < 4 else np.float64)


def _floor_divide(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind not in "iu":
        return np.floor(np.true_divide(x, y))
    return np.floor_divide(x, _not_zero(y))


def _remainder(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind in "iu":
        return np.remainder(x, _not_zero(y))
    rest = np.fmod(x, y)
    return np.where((x < 0) == (y < 0), rest, np.fmod(rest + y, y))


def _not_zero(y: NDArray[Any]) -> NDArray[Any]:
    if not y.all():
        raise InvalidArgumentError("division of integers by zero")
    return y


def _power(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind == "i" and (y < 0).any():
        raise InvalidArgumentError("pow: expected exponents of at least 0 for integers, found a negative one")
    return np.power(x, y)


OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "add": (np.add, "uifcO"),
    "subtract": (np.subtract, "uifc"),
    "multiply": (np.multiply, "buifc"),
    "divide": (_true_divide, "uifc"),
    "floordiv": (_floor_divide, "uif"),
    "floormod": (_remainder, "uif"),
    "pow": (_power, "ifc"),
    "matmul": (np.matmul, "ifc"),
    "minimum": (np.minimum, "uif"),
    "maximum": (np.maximum, "uif"),
    "equal": (np.equal, "buifcO"),
    "not_equal": (np.not_equal, "buifcO"),
    "less": (np.less, "uif"),
    "less_equal": (np.less_equal, "uif"),
    "greater": (np.greater, "uif"),
    "greater_equal": (np.greater_equal, "uif"),
    "logical_and": (np.logical_and, "b"),
    "logical_or": (np.logical_or, "b"),
    "and": (np.bitwise_and, "bui"),
    "or": (np.bitwise_or, "bui"),
    "xor": (np.bitwise_xor, "bui"),
}
"""Name to the operation, and the kinds of dtypes that it takes."""
