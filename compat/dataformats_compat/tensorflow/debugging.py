"""`tf.debugging`: checks of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.tensor import binary

__all__ = ["assert_equal", "assert_greater", "assert_greater_equal", "assert_less", "assert_less_equal"]

__getattr__: Any = missing_from(__name__)


def _check(operation: str) -> Callable[..., None]:
    def check(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
        if not np.asarray(binary(operation, x, y)).all():
            raise InvalidArgumentError(f"{message or ''} expected {operation}, found {x!r:.80} and {y!r:.80}".strip())

    check.__doc__ = f"Raise `InvalidArgumentError` unless `{operation}(x, y)` for all elements."
    return check


assert_equal: Callable[..., None] = _check("equal")
assert_less: Callable[..., None] = _check("less")
assert_less_equal: Callable[..., None] = _check("less_equal")
assert_greater: Callable[..., None] = _check("greater")
assert_greater_equal: Callable[..., None] = _check("greater_equal")
