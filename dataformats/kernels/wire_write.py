"""Writing Examples, SequenceExamples and OFRecords: from the values of a record to its bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataformats.kernels.wire import Shape, wire_kernels

NUMBERS_ITEM, BYTES_ITEM, TEXT_ITEM, OTHER_ITEM = range(4)
"""Kinds of values that a field takes: see `Field`."""

MESSAGE = 6
"""The kind of a field if its values are encoded messages."""


class Field(NamedTuple):
    """How a field is written.

    Attributes:
        name: Its name in the record, UTF-8.
        part: 0 for the context, or the only map; 1 for the feature lists.
        kind: The list that its values go to, or `MESSAGE`.
        required: True if every record has it.
        item: The values that need no conversion: 0 numbers, 1 bytes, 2 text, 3 none.
        letter: The kind of the numbers' dtype.
        width: The bytes of a number.
        dims: Sizes, -1 for any.
    """

    name: bytes
    part: int
    kind: int
    required: bool
    item: int
    letter: str
    width: int
    dims: tuple[int, ...]


Write = Callable[[tuple[Any, ...], Callable[[int, Any], Any]], bytes | int]
"""Returns the bytes of a record, from a value for each field (`None` if it has none) and a `normalize` function.

Returns the number of a field instead if its array has changed meanwhile, so that its integers no longer have the size
that was measured.

`normalize` is called with a field's number and value, and returns an array of the declared dtype and dims, a list of
bytes, or bytes, the message that is the map's value. It raises if a value does not fit, and for the `None` of a
required field. It is not called if a value is already an integer, a float, a bool, such an array, bytes, text, or a
list of bytes or text.
"""


def plan_writer(shape: Shape, fields: Sequence[Field]) -> Write | None:
    """Return a function that writes records; `None` without wire kernels.

    Args:
        shape: The message type of the records.
        fields: Their fields, in the order in which they are written.
    """
    module = wire_kernels()
    if module is None:
        return None
    plan = module.wire_plan(shape, tuple(map(tuple, fields)), np.ndarray, np.generic)
    return functools.partial(module.wire_write, plan)
