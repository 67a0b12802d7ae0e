"""`tf.math`: operations on each element, and reductions. Results are `Tensor` arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats_compat.tensorflow import arithmetic
from dataformats_compat.tensorflow.arithmetic import *  # noqa: F403
from dataformats_compat.tensorflow.arithmetic import elementwise, of_two
from dataformats_compat.tensorflow.missing import missing_from

__all__ = [
    "ceil", "floordiv", "floormod", "is_finite", "is_nan", "log", "log1p",
    "rint", *arithmetic.__all__,
]  # fmt: skip

__getattr__: Any = missing_from(__name__)


log: Callable[..., Any] = elementwise("log", np.log, "fc", "Return the natural logarithms.")
log1p: Callable[..., Any] = elementwise("log1p", np.log1p, "fc", "Return the natural logarithms of 1 + x.")
ceil: Callable[..., Any] = elementwise("ceil", np.ceil, "f", "Return the values rounded up.")
rint: Callable[..., Any] = elementwise("rint", np.rint, "f", "Return the values rounded, halves to the even number.")
is_nan: Callable[..., Any] = elementwise("is_nan", np.isnan, "f", "Return where values are not a number.")
is_finite: Callable[..., Any] = elementwise("is_finite", np.isfinite, "f", "Return where values are finite.")
floordiv: Callable[..., Any] = of_two("floordiv", "Return the quotients rounded down.")
floormod: Callable[..., Any] = of_two("floormod", "Return the remainders, of the sign of the second value.")
