"""Collate: stack records to columns. Fields of the source keep the type of their column.

Other fields stack if shapes and dtypes are equal, and stay lists otherwise; no array is cast.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, StackedList, take_column
from dataformats.columns.masks import insert_missing
from dataformats.errors import SpecError
from dataformats.loaders.typed_columns import is_optional, typed_column
from dataformats.spec import VALUE

_REMEDY = "Declare a shape in the spec, crop images by decode=, pass collate=, or make them alike in transform="


def stack_columns(columns: Mapping[str, Any], indices: NDArray[np.int64] | None = None) -> dict[str, Any]:
    """Return columns in which lists of arrays or numbers are stacked.

    Args:
        columns: The columns of a `RecordBatch`.
        indices: The records' indices, for errors.

    Raises:
        SpecError: Arrays of one field differ in shape or dtype.
    """
    return {name: _plain(name, column, indices) for name, column in columns.items()}


def stack_records(
    records: Sequence[Any], indices: NDArray[np.int64] | None = None, like: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the columns of some records: dicts with the same keys, or single values as the column `"value"`.

    A field of `like` whose values fit the type of its column there gets that type. In all other fields, numbers and
    arrays of one dtype and shape are stacked; Python's `int`, `float` and `bool` become int64, float64 and bool; torch
    tensors become arrays; text, bytes and all other values become lists.

    Args:
        records: Some records.
        indices: Their indices, for errors.
        like: The columns that these records had before a transform; records may lack an optional field of them.

    Raises:
        SpecError: Keys, shapes or dtypes differ.
    """
    if not records:
        return {}
    like = like or {}
    if not isinstance(records[0], Mapping):
        return {VALUE: _column(VALUE, list(records), indices, like.get(VALUE))}
    optional = {name for name, column in like.items() if is_optional(column)}
    _check_fields(records, indices, optional)
    if not optional:
        return {name: _column(name, [one[name] for one in records], indices, like.get(name)) for name in records[0]}
    names = dict.fromkeys(name for record in records for name in record)
    unseen = {name for name in optional if not like[name].present.any()}
    if names.keys() >= like.keys() - unseen:  # the transform drops no field, and so none that these records lack
        names |= dict.fromkeys(name for name in like if name in unseen)
    return {name: _column(name, [one.get(name) for one in records], indices, like.get(name)) for name in names}


def rows_of(column: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of a column that `collate` returned: an array, tensor, list, `Ragged` or `Nullable`.

    Raises:
        TypeError: It is no such column.
    """
    if isinstance(column, (str, bytes, int, float, np.generic, type(None))) or getattr(column, "ndim", 1) == 0:
        return column  # one value for the whole batch
    if isinstance(column, (Nullable, Ragged, np.ndarray, list)):
        return take_column(column, rows)
    if hasattr(column, "shape") and hasattr(column, "__getitem__"):
        return column[rows]
    if isinstance(column, tuple):
        return tuple(rows_of(part, rows) for part in column)
    if isinstance(column, Mapping):
        return {name: rows_of(part, rows) for name, part in column.items()}
    raise TypeError(
        f"collate or batch_transform returned a column without rows: expected an array, a tensor or a list, "
        f"found {type(column).__name__}"
    )


def _check_fields(records: Sequence[Any], indices: NDArray[np.int64] | None, optional: set[str]) -> None:
    first = records[0]
    for row, record in enumerate(records):
        if isinstance(record, Mapping):
            if record.keys() == first.keys() or (optional and record.keys() ^ first.keys() <= optional):
                continue
            found: Any = sorted(map(str, record))
        else:
            found = type(record).__name__
        raise SpecError(
            f"fields differ: {row_name(indices, 0)} has the fields {sorted(map(str, first))}, "
            f"{row_name(indices, row)} has {found}",
            remedy="Pass collate=, or return the same fields from every transform",
        )


def _column(name: str, values: list[Any], indices: NDArray[np.int64] | None, like: Any) -> Any:
    """Return a column of the type of `like` if the values fit it; else as they are stacked."""
    if not is_optional(like):
        return _stack(name, values, indices, like)
    present = np.array([value is not None for value in values], np.bool_)
    rows = np.flatnonzero(present)
    there = [values[row] for row in rows]
    required = like.values if isinstance(like, Nullable) else like
    if not isinstance(required, list):
        there = _stack(name, there, rows if indices is None else indices[rows], required)
    return insert_missing(there, present, optional=isinstance(like, Nullable) or len(rows) < len(values))


def _plain(name: str, column: Any, indices: NDArray[np.int64] | None) -> Any:
    if not isinstance(column, list):
        return column
    return column.stacked if isinstance(column, StackedList) else _stack(name, column, indices)


def _stack(name: str, values: list[Any], indices: NDArray[np.int64] | None, like: Any = None) -> Any:
    values = _without_tensors(values)
    found = None if like is None else typed_column(name, values, like)
    if found is not None:
        return found
    if any(isinstance(value, tuple) for value in values):
        raise SpecError(
            "tuples cannot be stacked",
            field=name,
            remedy="Let transform return a dict of fields, as {'image': image, 'label': label}, or pass collate=",
        )
    if not values or not any(isinstance(value, (np.ndarray, np.generic, int, float)) for value in values):
        return values
    arrays = [_number(name, value) for value in values]
    wanted = _form(arrays[0])
    for row, array in enumerate(arrays):
        if _form(array) != wanted:
            raise SpecError(
                f"values do not stack: {row_name(indices, 0)} has {_described(arrays[0])}, "
                f"{row_name(indices, row)} has {_described(array)}",
                field=name,
                remedy=_REMEDY,
            )
    return np.stack(arrays)


def _number(name: str, value: Any) -> Any:
    """Return a number as an array, and any other value unchanged."""
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise SpecError(f"{value} does not fit int64", field=name, remedy=_REMEDY)
        return np.array(value, np.int64)
    return np.array(value) if isinstance(value, (float, np.generic)) else value


def _without_tensors(values: list[Any]) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not any(issubclass(kind, torch.Tensor) for kind in set(map(type, values))):
        return values
    return [as_array(value) for value in values]


def as_array(value: Any) -> Any:
    """Return a torch tensor as an array, and any other value unchanged."""
    torch = sys.modules.get("torch")  # imported if the value is a tensor
    return value.detach().cpu().numpy() if torch is not None and isinstance(value, torch.Tensor) else value


def row_name(indices: NDArray[np.int64] | None, row: int) -> str:
    """Return the name of a row for errors: its record if the indices are known."""
    return f"row {row}" if indices is None else f"record {indices[row]}"


def _form(value: Any) -> Any:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else type(value)


def _described(value: Any) -> str:
    return f"{value.dtype}{list(value.shape) or ''}" if isinstance(value, np.ndarray) else type(value).__name__
