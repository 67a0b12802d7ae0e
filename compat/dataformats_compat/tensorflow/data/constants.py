"""The numbers that stand for something else in calls of `tf.data`."""

from __future__ import annotations

from dataformats.internals import processors
from dataformats_compat.tensorflow.errors import InvalidArgumentError

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "parallelism"]

AUTOTUNE = -1
"""As many as there are processors."""

INFINITE_CARDINALITY = -1
"""The cardinality of a dataset without an end."""

UNKNOWN_CARDINALITY = -2
"""The cardinality of a dataset whose elements must be counted."""


def parallelism(number: int | None, name: str) -> int:
    """Return how many things are done at once; `None` is one.

    Raises:
        InvalidArgumentError: It is neither positive nor `AUTOTUNE`.
    """
    if number == AUTOTUNE:
        return processors()
    if number is None:
        return 1
    if number < 1:
        raise InvalidArgumentError(f"{name}: expected a positive number or tf.data.AUTOTUNE, found {number}")
    return int(number)
