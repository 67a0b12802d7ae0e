"""Columns as pyarrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.batch.column_types import Nullable, Ragged
from dataformats.errors import MissingExtraError

__all__ = [
    "pyarrow",
    "to_arrow",
]


def to_arrow(column: Any) -> Any:
    """Return a column as a pyarrow array: fixed shapes as fixed-size lists, `Ragged` as large lists.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow = pyarrow()
    if isinstance(column, Nullable):
        if isinstance(column.values, list):
            return _arrow_list(list(column))
        rows = to_arrow(column.values)
        return arrow.compute.if_else(arrow.array(column.present), rows, arrow.scalar(None, rows.type))
    if isinstance(column, Ragged):
        return _ragged(column)
    if isinstance(column, list):
        return _arrow_list(column)
    if column.ndim == 1:
        return arrow.array(column)
    array = arrow.array(np.ascontiguousarray(column).reshape(-1))
    for size in reversed(column.shape[1:]):
        array = arrow.FixedSizeListArray.from_arrays(array, size)
    return array


def _ragged(column: Ragged) -> Any:
    arrow = pyarrow()
    if column.item != "array":
        present = [True] * len(column) if column.present is None else column.present
        return arrow.array(
            [value if there else None for value, there in zip(column, present, strict=True)],
            arrow.large_binary() if column.item == "bytes" else arrow.large_string(),
        )
    mask = None if column.present is None else arrow.array(~column.present)
    return arrow.LargeListArray.from_arrays(column.offsets, to_arrow(column.values), mask=mask)


def _arrow_list(values: list[Any]) -> Any:
    """Return a pyarrow array of any values; arrays of several dimensions are lists of lists of their dtype."""
    arrow = pyarrow()
    deep = [value for value in values if isinstance(value, np.ndarray) and value.ndim > 1]
    if not deep:
        return arrow.array(values)
    kind = arrow.from_numpy_dtype(deep[0].dtype)
    for _ in range(deep[0].ndim):
        kind = arrow.list_(kind)
    return arrow.array([None if value is None else value.tolist() for value in values], kind)


def pyarrow() -> Any:
    """Return the package pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("to_arrow", extra="arrow") from error
    return pyarrow
