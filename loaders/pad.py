"""Pad: a collate function that pads fields of different lengths to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.loaders.collate import as_array, plain, row_name, stacked

__all__ = ["Pad", "pad"]

Indices = NDArray[np.int64] | None


def pad(*fields: str, to: int | None = None, value: Any = 0, truncate: bool = False, lengths: str | None = None) -> Pad:
    """Return a collate function that pads these fields to arrays `(B, to, ...)`; other fields are not affected.

    Args:
        *fields: Names of fields that hold sequences of numbers, or of arrays of one shape.
        to: The length of every row; `None` takes the longest one of each batch.
        value: The padding value; the field's dtype must hold it.
        truncate: Cut rows longer than `to`, which otherwise raise.
        lengths: A suffix: adds, for each field, a column int64[B] under the field's name with this suffix, the length
            of each row before padding.

    Raises:
        ValueError: No field is named, or the arguments contradict each other.

    Example:
        >>> import dataformats
        >>> collate = dataformats.pad("tokens", to=4, lengths="_length")
        >>> batch = collate([{"tokens": [7, 8, 9], "label": 1}, {"tokens": [5], "label": 0}])
        >>> batch["tokens"]
        array([[7, 8, 9, 0],
               [5, 0, 0, 0]])
        >>> batch["tokens_length"], batch["label"]
        (array([3, 1]), array([1, 0]))
    """
    _check_arguments(fields, to, truncate, lengths)
    return Pad(tuple(dict.fromkeys(fields)), None if to is None else int(to), value, truncate, lengths)


@dataclass(frozen=True, slots=True)
class Pad:
    """The collate function that `pad` returns; see there. Pickles.

    Attributes:
        fields: The names of the fields to pad.
        to: The length of every row; `None`: the longest of the batch.
        value: The padding value.
        truncate: True if longer rows are cut.
        lengths: The suffix of the columns of lengths, or `None`.
    """

    fields: tuple[str, ...]
    to: int | None
    value: Any
    truncate: bool
    lengths: str | None

    def __call__(self, records: Sequence[Any], indices: Indices = None) -> dict[str, Any]:
        """Return the columns of some records, which are dicts; a record that lacks a field gets a row of padding.

        Empty Python lists have no dtype: if all of a batch are empty, it is float64.

        Args:
            records: Some records.
            indices: Their indices, for errors.

        Raises:
            SpecError: A value is too long, cannot be padded, or differs in shape or dtype from the others.
        """
        if not records:
            return {}
        for record in records:
            if not isinstance(record, Mapping):
                found = type(record).__name__
                raise SpecError(f"expected records with fields to pad, found a {found}", remedy="Pass another collate=")
        names = list(dict.fromkeys(name for record in records for name in record))
        self._check_present(names)
        others = [{name: record[name] for name in record if name not in self.fields} for record in records]
        ragged = {field: _of_values(field, [record.get(field) for record in records], indices) for field in self.fields}
        return self._merged(names, ragged, stacked(others, indices), indices)

    def of_columns(self, columns: Mapping[str, Any], indices: Indices = None) -> dict[str, Any]:
        """Return the same as a call with the records of these columns, without creating them; same errors."""
        self._check_present(list(columns))
        others = {name: column for name, column in columns.items() if name not in self.fields}
        ragged = {field: _of_column(field, columns[field], indices) for field in self.fields}
        return self._merged(columns, ragged, plain(others, indices), indices)

    def _check_present(self, names: Sequence[str]) -> None:
        missing = [field for field in self.fields if field not in names]
        if missing:
            found = ", ".join(map(str, names)) or "none"
            raise SpecError(f"expected a field of the records to pad, found only {found}", field=missing[0])

    def _merged(
        self, names: Iterable[str], ragged: Mapping[str, Ragged], others: Mapping[str, Any], indices: Indices
    ) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for name in names:
            columns = self._padded(name, ragged[name], indices) if name in ragged else {name: others[name]}
            if taken := merged.keys() & columns:
                raise SpecError(
                    "lengths= gives a column the name of a field", field=taken.pop(), remedy="Pass another suffix"
                )
            merged |= columns
        return merged

    def _padded(self, field: str, ragged: Ragged, indices: Indices) -> dict[str, Any]:
        if self.to is not None and int(ragged.lengths.max(initial=0)) > self.to:
            if not self.truncate:
                raise _too_long(field, ragged, self.to, indices)
            ragged = _cut(ragged, self.to)
        value = _padding_value(field, self.value, ragged)
        columns: dict[str, Any] = {field: ragged.pad(self.to, value)}
        if self.lengths is not None:
            columns[field + self.lengths] = ragged.lengths
        return columns


def _check_arguments(fields: Any, to: Any, truncate: bool, lengths: Any) -> None:
    if not fields or not all(isinstance(field, str) for field in fields):
        raise ValueError(f"expected the names of the fields to pad, found {fields!r}")
    if to is not None and (not isinstance(to, (int, np.integer)) or isinstance(to, bool) or to < 1):
        raise ValueError(f"to: expected a whole number of at least 1, or None, found {to!r}")
    if truncate and to is None:
        raise ValueError("truncate=True needs a length to cut at, found to=None. Pass to=")
    if lengths is not None and (not isinstance(lengths, str) or not lengths):
        raise ValueError(f"lengths: expected a suffix such as '_length', found {lengths!r}")


# ---- a field as a ragged column


def _of_column(field: str, column: Any, indices: Indices) -> Ragged:
    if isinstance(column, Ragged) and column.item == "array" and isinstance(column.values, np.ndarray):
        return column
    if isinstance(column, Ragged):
        raise _unfit(field, "text, bytes or sequences of sequences", "Pad it in transform=")
    if isinstance(column, np.ndarray) and column.ndim > 1:
        n_rows, length = column.shape[:2]
        return Ragged(column.reshape(n_rows * length, *column.shape[2:]), np.arange(n_rows + 1) * length)
    return _of_values(field, list(column), indices)


def _of_values(field: str, values: list[Any], indices: Indices) -> Ragged:
    arrays = [_array(field, value) for value in values]
    forms = [array for array in arrays if array is not None]
    if not forms:
        return Ragged(np.zeros(0), np.zeros(len(arrays) + 1, np.int64))
    first = forms[0]
    for row, array in enumerate(arrays):
        if array is not None and (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
            raise SpecError(
                f"values differ: {row_name(indices, row)} has {_described(array)}, another record {_described(first)}",
                field=field,
                remedy="Make them alike in transform=",
            )
    lengths = [0 if array is None else len(array) for array in arrays]
    return Ragged(np.concatenate(forms), np.cumsum([0, *lengths], dtype=np.int64))


def _array(field: str, item: Any) -> NDArray[Any] | None:
    """Return a value as an array; `None` for a missing one, or an empty list, which has no dtype."""
    value = as_array(item)
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    if isinstance(value, (list, tuple)) and all(isinstance(one, (int, float, np.number, np.bool_)) for one in value):
        value = np.array(value)
    if isinstance(value, (int, float, np.generic)):
        raise _unfit(field, "a single number", "Do not name this field")
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
        raise _unfit(field, f"a {type(value).__name__}", "Make it an array in transform=")
    if not value.ndim:
        raise _unfit(field, "a single number", "Do not name this field")
    return value


def _cut(ragged: Ragged, to: int) -> Ragged:
    """Return items of at most `to` values."""
    first, last = int(ragged.offsets[0]), int(ragged.offsets[-1])
    within = np.arange(first, last) - np.repeat(ragged.offsets[:-1], ragged.lengths)
    lengths = np.minimum(ragged.lengths, to)
    values: Any = ragged.values
    return Ragged(values[first:last][within < to], np.cumsum([0, *lengths], dtype=np.int64))


def _padding_value(field: str, value: Any, ragged: Ragged) -> Any:
    """Return the padding value in the field's dtype; a float may be rounded.

    Raises:
        SpecError: The dtype cannot hold it.
    """
    dtype = getattr(ragged.values, "dtype", np.dtype(float))
    try:
        with np.errstate(all="ignore"):
            cast = np.asarray(value).astype(dtype)
        if np.all(cast == value if dtype.kind in "biu" else np.isfinite(cast) == np.isfinite(value)):
            return cast
    except (TypeError, ValueError, OverflowError):
        pass
    raise SpecError(f"value={value!r} does not fit {dtype}, its dtype", field=field, remedy="Pass another value=")


# ---- errors


def _too_long(field: str, ragged: Ragged, to: int, indices: Indices) -> SpecError:
    lengths = ragged.lengths
    row, others = int(lengths.argmax()), int((lengths > to).sum()) - 1
    return SpecError(
        f"{row_name(indices, row)} has {lengths[row]} values, more than to={to}"
        + (f", as have {others} more of this batch" if others else ""),
        field=field,
        remedy="Pass a larger to=, truncate=True, or to=None for the longest of each batch",
    )


def _unfit(field: str, what: str, remedy: str) -> SpecError:
    return SpecError(f"expected sequences of numbers to pad, found {what}", field=field, remedy=remedy)


def _described(array: NDArray[Any]) -> str:
    return f"{array.dtype}[{', '.join(['n', *map(str, array.shape[1:])])}]"
