"""Columns of the types that a source gives: for values that a transform returned."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, take_column
from dataformats.columns.numbers import offsets_of
from dataformats.errors import SpecError


def typed_column(name: str, values: list[Any], column: Any) -> Any:
    """Return values as a column of the type of another one; `None` if they are of another type.

    Arrays keep their own dtype; Python numbers have none, so they take the dtype of the column, as in NumPy's
    arithmetic.

    Args:
        name: The field's name, for errors.
        values: Its values, no tensors.
        column: The column whose type is wanted; for a `Nullable`, its `values`.

    Raises:
        SpecError: A Python number does not fit the dtype.
    """
    if not values:
        return take_column(column, np.zeros(0, np.int64))
    types = set(map(type, values))
    if isinstance(column, Ragged):
        return _ragged(name, values, types, column)
    return _numbers(name, values, types, column.dtype) if isinstance(column, np.ndarray) and column.ndim == 1 else None


def is_optional(column: Any) -> bool:
    """Return True if records of a column may lack the field, or if some do."""
    return isinstance(column, Nullable) or getattr(column, "present", None) is not None


def _ragged(name: str, values: list[Any], types: set[type], column: Ragged) -> Ragged | None:
    inner: Any = column.values
    if column.item_kind == "bytes":
        return _of_bytes(values, "bytes") if types == {bytes} else None
    if column.item_kind == "utf8":
        return _of_text(values) if types == {str} else None
    if types == {np.ndarray}:
        return _of_arrays(values) if values[0].ndim and values[0].shape[1:] == np.shape(inner)[1:] else None
    if types != {list}:
        return None
    flat = list(itertools.chain.from_iterable(values))
    elements = flat if isinstance(inner, list) else typed_column(name, flat, inner)
    return None if elements is None else Ragged(elements, _offsets(values))


def _of_text(values: list[str]) -> Ragged | None:
    joined = "".join(values)
    if not joined.isascii():
        return _of_bytes([value.encode() for value in values], "utf8")
    return Ragged(np.frombuffer(bytearray(joined, "ascii"), np.uint8), _offsets(values), "utf8")


def _of_bytes(values: list[bytes], item: str) -> Ragged:
    return Ragged(np.frombuffer(bytearray().join(values), np.uint8), _offsets(values), item)


def _of_arrays(values: list[NDArray[Any]]) -> Ragged | None:
    if len({(value.dtype, value.shape[1:]) for value in values}) > 1:
        return None
    return Ragged(np.concatenate(values), _offsets(values))


def _offsets(values: list[Any]) -> NDArray[np.int64]:
    return offsets_of(np.fromiter(map(len, values), np.int64, len(values)))


def _numbers(name: str, values: list[Any], types: set[type], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    if dtype.kind in "iu" and types == {int}:
        bounds = np.iinfo(dtype)
        wrong = next((value for value in (min(values), max(values)) if not bounds.min <= value <= bounds.max), None)
        if wrong is None:
            return np.array(values, dtype)
        remedy = f"Return numbers of another dtype, such as numpy.int64({wrong}), from transform"
        raise SpecError(f"{wrong} does not fit {dtype}, the dtype of the field", field=name, remedy=remedy)
    if (dtype.kind == "f" and types <= {int, float}) or (dtype.kind == "b" and types == {bool}):
        return np.array(values, dtype)
    return None
