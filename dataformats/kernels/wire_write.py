"""Writing Examples, SequenceExamples and OFRecords: from the values of a record to its bytes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dataformats.kernels import reference
from dataformats.kernels.dispatch import kernels
from dataformats.kernels.reference.wire_write import Field
from dataformats.kernels.wire import Shape

__all__ = ["BYTES_ITEM", "MESSAGE", "NUMBERS_ITEM", "OTHER_ITEM", "TEXT_ITEM", "Field", "Write", "writer_of"]

NUMBERS_ITEM, BYTES_ITEM, TEXT_ITEM, OTHER_ITEM = range(4)
"""What the values of a field are: see `Field`."""

MESSAGE = 6
"""The kind of a field whose map values are messages made elsewhere."""

Write = Callable[[tuple[Any, ...], Callable[[int, Any], Any]], bytes]


def writer_of(shape: Shape, fields: Sequence[Field]) -> Write:
    """Return what makes the bytes of a record from a tuple of values: see `kernels/reference/wire_write.py`.

    Args:
        shape: What records are.
        fields: Their fields, in the order in which they are written.
    """
    # The C kernel takes numbers as they lie in memory, and they are stored as little-endian.
    module: Any = kernels() if sys.byteorder == "little" else reference
    plan = module.wire_plan(shape, tuple(map(tuple, fields)) if module is not reference else tuple(fields), *_TYPES)
    return functools.partial(module.wire_write, plan)


_TYPES = (np.ndarray, np.generic)
