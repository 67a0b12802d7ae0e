"""`tf.math`: operations on each element, and reductions. Results are `Tensor` arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats.compat.tensorflow import arithmetic
from dataformats.compat.tensorflow.arithmetic import *  # noqa: F403
from dataformats.compat.tensorflow.arithmetic import elementwise, of_two
from dataformats.compat.tensorflow.missing import missing

__all__ = [
    "ceil", "floordiv", "floormod", "is_finite", "is_inf", "is_nan", "log", "log1p", "logical_xor", "mod",
    "reciprocal", "rint", "rsqrt", "squared_difference", *arithmetic.__all__,
]  # fmt: skip


def _reciprocal(array: Any) -> Any:
    return array.dtype.type(1) / array


log: Callable[..., Any] = elementwise("log", np.log, "fc", "Return the natural logarithms.")
log1p: Callable[..., Any] = elementwise("log1p", np.log1p, "fc", "Return the natural logarithms of 1 + x.")
ceil: Callable[..., Any] = elementwise("ceil", np.ceil, "f", "Return the values rounded up.")
rint: Callable[..., Any] = elementwise("rint", np.rint, "f", "Return the values rounded, halves to the even number.")
reciprocal: Callable[..., Any] = elementwise("reciprocal", _reciprocal, "fc", "Return 1 / x.")
rsqrt: Callable[..., Any] = elementwise("rsqrt", lambda x: _reciprocal(np.sqrt(x)), "fc", "Return 1 / sqrt(x).")
is_nan: Callable[..., Any] = elementwise("is_nan", np.isnan, "f", "Return where values are not a number.")
is_inf: Callable[..., Any] = elementwise("is_inf", np.isinf, "f", "Return where values are infinite.")
is_finite: Callable[..., Any] = elementwise("is_finite", np.isfinite, "f", "Return where values are finite.")
floordiv: Callable[..., Any] = of_two("floordiv", "Return the quotients rounded down.")
floormod: Callable[..., Any] = of_two("floormod", "Return the remainders, of the sign of the second value.")
mod: Callable[..., Any] = floormod
squared_difference: Callable[..., Any] = of_two("squared_difference", "Return (x - y) * (x - y).")
logical_xor: Callable[..., Any] = of_two("logical_xor", "Return where one of both is true.")


def __getattr__(name: str) -> Any:
    raise missing(f"math.{name}")
