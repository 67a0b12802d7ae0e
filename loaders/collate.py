"""From records to the columns of a batch: equal things are stacked, everything else stays a list, nothing is cast."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, StackedList, take_column
from dataformats.errors import SpecError
from dataformats.spec import VALUE

__all__ = ["plain", "rows_of", "stacked"]

_REMEDY = "declare a shape in the spec, pass collate=, or make them alike in transform="


def plain(columns: Mapping[str, Any], numbers: NDArray[np.int64] | None = None) -> dict[str, Any]:
    """Return columns with the lists among them stacked where their values are arrays or numbers.

    Args:
        columns: As `RecordBatch` has them.
        numbers: The records' numbers, for errors.

    Raises:
        SpecError: Arrays of one field differ in shape or dtype.
    """
    return {name: _plain(name, column, numbers) for name, column in columns.items()}


def stacked(records: Sequence[Any], numbers: NDArray[np.int64] | None = None) -> dict[str, Any]:
    """Return the columns of some records: dicts of the same keys, or single values as the column `"value"`.

    Numbers and arrays of one dtype and shape are stacked; Python's `int`, `float` and `bool` become int64, float64 and
    bool; tensors of torch become arrays; text, bytes and everything else are lists.

    Args:
        records: Some records.
        numbers: Their numbers, for errors.

    Raises:
        SpecError: Keys, shapes or dtypes differ.
    """
    if not records:
        return {}
    first = records[0]
    if not isinstance(first, Mapping):
        return {VALUE: _stack(VALUE, list(records), numbers)}
    for row, record in enumerate(records):
        if not isinstance(record, Mapping) or record.keys() != first.keys():
            found = sorted(map(str, record)) if isinstance(record, Mapping) else type(record).__name__
            raise SpecError(
                f"{_named(numbers, 0)} has the fields {sorted(map(str, first))}, {_named(numbers, row)} has {found}: "
                "pass collate=, or return the same fields from every transform"
            )
    return {name: _stack(name, [record[name] for record in records], numbers) for name in first}


def rows_of(column: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of a column that a collate made: an array, a tensor, a list, or a column of ours.

    Raises:
        TypeError: It is nothing of the kind.
    """
    if isinstance(column, (str, bytes, int, float, np.generic, type(None))) or getattr(column, "ndim", 1) == 0:
        return column  # a number or name of the whole batch
    if isinstance(column, (Nullable, Ragged, np.ndarray, list)):
        return take_column(column, rows)
    if hasattr(column, "shape") and hasattr(column, "__getitem__"):
        return column[rows]
    if isinstance(column, tuple):
        return tuple(rows_of(part, rows) for part in column)
    if isinstance(column, Mapping):
        return {name: rows_of(part, rows) for name, part in column.items()}
    raise TypeError(f"expected a column of rows from collate or batch_transform, found {type(column).__name__}")


def _plain(name: str, column: Any, numbers: NDArray[np.int64] | None) -> Any:
    if not isinstance(column, list):
        return column
    return column.stacked if isinstance(column, StackedList) else _stack(name, column, numbers)


def _stack(name: str, values: list[Any], numbers: NDArray[np.int64] | None) -> Any:
    values = [_as_array(value) for value in values]
    if any(isinstance(value, tuple) for value in values):
        raise SpecError(
            "tuples are no columns: let transform return a dict of fields, as {'image': image, 'label': label}, "
            "or pass collate=",
            field=name,
        )
    if not values or not any(isinstance(value, (np.ndarray, np.generic, int, float)) for value in values):
        return values
    arrays = [_number(name, value) for value in values]
    wanted = _form(arrays[0])
    for row, array in enumerate(arrays):
        if _form(array) != wanted:
            raise SpecError(
                f"values do not stack: {_named(numbers, 0)} has {wanted}, {_named(numbers, row)} has {_form(array)}; "
                + _REMEDY,
                field=name,
            )
    return np.stack(arrays)


def _number(name: str, value: Any) -> Any:
    """Return numbers as arrays, and what else there may be as it is."""
    if isinstance(value, bool):
        return np.array(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise SpecError(f"{value} does not fit int64; {_REMEDY}", field=name)
        return np.array(value, np.int64)
    return np.array(value) if isinstance(value, (float, np.generic)) else value


def _as_array(value: Any) -> Any:
    torch = sys.modules.get("torch")  # whoever returns a tensor has imported it
    return value.detach().cpu().numpy() if torch is not None and isinstance(value, torch.Tensor) else value


def _form(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def _named(numbers: NDArray[np.int64] | None, row: int) -> str:
    return f"row {row}" if numbers is None else f"record {numbers[row]}"
