"""Batches of Examples and OFRecords as columns, or one as its values, in one call, if the records are simple enough.

A column is filled if all records have the wanted values: one kind, present in each record, the right count, and each
number exact in the column's dtype. Other columns are left as feature rows, which the caller decodes and reports on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.wire import Shape, wire_kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

AS_FOUND, DENSE, RAGGED, JOINED, PLACED, TEXT = range(6)
FILLED, SLICED = 1, 2


class Output(NamedTuple):
    """The column that the features of a name become.

    Attributes:
        output: `AS_FOUND`, feature rows; `DENSE`, `size` numbers each, from lists of numbers or one bytes value that
            has them all; `RAGGED`, elements of `size` numbers, from lists of numbers; `JOINED`, the one bytes value of
            each record, back to back; `PLACED`, the place of that value in the buffer; `TEXT`, as `JOINED`, and each
            value is UTF-8.
        letter: The kind of the numbers' dtype.
        width: The bytes of a number.
        size: The numbers in a record, or in an element of `RAGGED`; at least 1.
        new: Returns an array of n records (`DENSE`), elements (`RAGGED`) or bytes (`JOINED`, `TEXT`).
        new_present: Returns an array of n bools; `None` unless records may lack the value, which `PLACED` needs.
    """

    output: int
    letter: str = "u"
    width: int = 1
    size: int = 1
    new: Callable[[int], NDArray[Any]] | None = None
    new_present: Callable[[int], NDArray[np.bool_]] | None = None


class ValueForm(IntEnum):
    """The form of a field's value in one record, which is an item of its column."""

    NUMBER = 1
    """A Python number, of `DENSE`."""
    ROW = 2
    """An array, of `DENSE`."""
    ELEMENTS = 3
    """An array, of `RAGGED`."""
    BYTES = 4
    """`bytes`, of one bytes value."""
    TEXT = 5
    """The `str` of one bytes value in UTF-8."""
    DECODED = 6
    """The result of a function of one bytes value."""


class Value(NamedTuple):
    """The value of a field in a record.

    Attributes:
        form: The form of the value.
        may_lack: True if a record may lack the field, so that its dict has no such key.
        name: The field's name, a key of the dict.
        decode: Returns the value of a bytearray, for `DECODED`.
    """

    form: ValueForm
    may_lack: bool
    name: str
    decode: Callable[[bytearray], Any] | None = None


ReadValues = Callable[["BytesLike"], "dict[str, Any] | None"]
"""Returns the values of one record. `None` if it must be decoded as a batch of one, which also reports its errors."""

Filled = tuple[int, Any, Any, NDArray[np.bool_] | None]
"""One column of `FillColumns`: flags, first, second, present."""

FillColumns = Callable[
    ["BytesLike", NDArray[np.int64], NDArray[np.int64], "tuple[int, int] | None"], "tuple[Filled, ...] | None"
]
"""Fills the columns of records, from their buffer, starts and lengths (int64[n]) and a value slice.

The slice is a part of all records that was read elsewhere: its begin, from a record's end if below 0, and its bytes;
or `None`. At most one column is sliced: the first whose values, unparsed, lie exactly there in all records. The content
of the buffer at the slice has no influence, because finding features never looks at values that it leaves unparsed.

Returns `None` if there are no records, one does not parse, has a name that it must not have, or no column is sliced.
Else of each column:

- flags: `FILLED`, or 0 for feature rows; with `SLICED` added, the column's values are the slice;
- first: the values, or for `PLACED`, int64[n], each begin; `None` if sliced; if not filled, the rows, int64[6 n];
- second: for `RAGGED`, `JOINED` and `TEXT`, int64[n + 1], offsets; for `PLACED`, int64[n], lengths; else `None`;
- present: the records that have the value, bool[n], if some lack it; the value is then 0 or empty. Else `None`, or
  of `DENSE` perhaps all True.
"""


def plan_columns(
    shape: Shape,
    wanted: Sequence[tuple[int, str]],
    outputs: Sequence[Output],
    values: Sequence[Value] | None = None,
    known: Collection[tuple[int, str]] | None = None,
) -> tuple[FillColumns, ReadValues]:
    """Return a function that fills columns, and one that reads the values of one record.

    Without wire kernels, both always return `None`.

    Args:
        shape: The message type of the records.
        wanted: Part and name of the features to find, none twice.
        outputs: The column of each.
        values: The value of each; `None`: no value can be read.
        known: All parts and names that records may have; `None`: any.
    """
    module = wire_kernels()
    if module is None:
        return lambda buffer, starts, lengths, value_slice: None, lambda record: None
    others = sorted(set(known or ()) - set(wanted))
    names = tuple((part, name.encode()) for part, name in (*wanted, *others))
    forms = None if values is None else tuple(map(tuple, values))
    plan = module.wire_columns_plan(shape, names, tuple(map(tuple, outputs)), known is not None, _int64s, forms)
    return functools.partial(module.wire_columns, plan), functools.partial(module.wire_record, plan)


_int64s = functools.partial(np.empty, dtype=np.int64)
