"""Apply masks to columns: take a range of elements of every record, and leave room for records without the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dataformats.batch import Column, Nullable, Ragged, take_column
from dataformats.columns.numbers import offsets_of
from dataformats.errors import SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def elements_of(column: Any, part: range, name: str, size: int = 1) -> Column:
    """Return the elements `part` along the first dimension of every record.

    Args:
        column: A `Ragged`, a list of sequences, or an ndarray (B, n, ...).
        part: The elements.
        name: The field's name, for errors.
        size: Values of one element.

    Raises:
        IndexError: A record has too few elements.
        SpecError: The column has no elements.
    """
    if isinstance(column, Ragged):
        if column.item_kind != "array":
            raise SpecError(f"cannot take elements {part} of {column.item_kind}", field=name)
        check_part(part, column.lengths // size, name)
        picked = (np.arange(size) + size * np.asarray(part, np.int64)[:, None]).reshape(-1)
        inner = (column.offsets[:-1, None] + picked).reshape(-1)
        offsets = np.arange(len(column) + 1, dtype=np.int64) * len(picked)
        return Ragged(take_column(column.values, inner), offsets, column.item_kind)
    if isinstance(column, list):
        check_part(part, np.array([len(value) for value in column], np.int64), name)
        return [_picked(value, part) for value in column]
    if column.ndim < 2:
        raise SpecError(f"cannot take elements {part} of a scalar", field=name)
    check_part(part, np.full(len(column), column.shape[1], np.int64), name)
    return cast("NDArray[Any]", column[:, np.asarray(part, np.int64)])


def _picked(value: Any, part: range) -> Any:
    return [value[at] for at in part] if isinstance(value, list) else value[np.asarray(part, np.int64)]


def check_part(part: range, available: NDArray[np.int64], name: str) -> None:
    """Raise if `part` goes past the available elements.

    Args:
        part: The requested elements.
        available: int64[B], elements of each record.
        name: The field's name.

    Raises:
        IndexError: A record has too few elements.
    """
    if not len(part) or not len(available):
        return
    fewest = int(available.min())
    if min(part) < 0 or max(part) >= fewest:
        row = int(available.argmin())
        raise IndexError(f"field {name!r}: {part} goes past the {fewest} elements of record {row} of this read")


def insert_missing(column: Column, present: NDArray[np.bool_], *, optional: bool) -> Column:
    """Return the column of all records, given the column of those that have the field.

    Args:
        column: One row for each True in `present`, in order.
        present: bool[B].
        optional: The type has a `?`.

    Returns:
        A `Ragged` with empty items for missing values, and `present` if there are any; any other column as
        `Nullable` if `optional`, else unchanged.
    """
    if isinstance(column, Ragged):
        if present.all():
            return column
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = column.lengths
        return Ragged(column.values, offsets_of(lengths) + column.offsets[0], column.item_kind, present)
    if not optional or isinstance(column, Nullable):
        return column
    if isinstance(column, list):
        rows = iter(column)
        return Nullable([next(rows) if there else None for there in present.tolist()], present)
    dense = np.zeros((len(present), *column.shape[1:]), column.dtype)
    dense[present] = column
    return Nullable(dense, present)
