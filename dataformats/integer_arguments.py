"""Integer arguments: NumPy's integers are accepted, bool and float are not."""

from __future__ import annotations

import operator
from typing import Any


def as_int(value: Any) -> int:
    """Return an integer of any type as an `int`.

    Raises:
        TypeError: It is a bool, or not an integer. The text is what the caller expected: `"an integer"`.
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError("an integer")


def checked_int(name: str, value: Any, minimum: int) -> int:
    """Return an argument as an `int` in `[minimum, 2**63)`.

    Raises:
        ValueError: It is not such a number.
    """
    try:
        number = as_int(value)
    except TypeError:
        number = minimum - 1
    if not minimum <= number < 2**63:
        raise ValueError(f"{name}: expected a whole number in [{minimum}, 2**63), found {value!r}")
    return number
