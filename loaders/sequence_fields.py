"""Fields of sequences as ragged columns: shared by the collate functions that pad and pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.loaders.collate import as_array, row_name, stack_columns, stack_records

Indices = NDArray[np.int64] | None


class Split(NamedTuple):
    """The columns of some records.

    Attributes:
        names: All fields, in their order.
        sequences: The fields of sequences: name to a Ragged over an array.
        others: Name to column of all other fields.
    """

    names: list[str]
    sequences: dict[str, Ragged]
    others: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SequenceFields:
    """The fields that a collate function takes as sequences of numbers, or of arrays of one shape.

    Attributes:
        names: Their names.
        verb: The work of the function, for errors: `"pad"`.
    """

    names: tuple[str, ...]
    verb: str

    def of_records(self, records: Sequence[Any], indices: Indices, like: Mapping[str, Any] | None = None) -> Split:
        """Return the columns of some records, at least one; a record that lacks a sequence gets an empty one.

        Args:
            records: The records.
            indices: Their indices, for errors.
            like: The columns that they had before a transform: other fields than sequences keep their types.

        Raises:
            SpecError: The records are not dicts, a field is missing, or values differ in shape or dtype.
        """
        for record in records:
            if not isinstance(record, Mapping):
                found = type(record).__name__
                raise SpecError(
                    f"expected records with fields to {self.verb}, found a {found}", remedy="Pass another collate="
                )
        names = list(dict.fromkeys(name for record in records for name in record))
        self._check_present(names)
        others = [{name: record[name] for name in record if name not in self.names} for record in records]
        sequences = {
            name: self._of_values(name, [record.get(name) for record in records], indices) for name in self.names
        }
        return Split(names, sequences, stack_records(others, indices, _without(self.names, like)))

    def of_columns(self, columns: Mapping[str, Any], indices: Indices) -> Split:
        """Return the same as `of_records` with the records of these columns, without creating them; same errors."""
        self._check_present(list(columns))
        others = _without(self.names, columns)
        sequences = {name: self._of_column(name, columns[name], indices) for name in self.names}
        return Split(list(columns), sequences, stack_columns(others, indices))

    def _check_present(self, names: Sequence[str]) -> None:
        missing = [name for name in self.names if name not in names]
        if missing:
            found = ", ".join(map(str, names)) or "none"
            raise SpecError(f"expected a field of the records to {self.verb}, found only {found}", field=missing[0])

    def _of_column(self, field: str, column: Any, indices: Indices) -> Ragged:
        if isinstance(column, Ragged) and column.item_kind == "array" and isinstance(column.values, np.ndarray):
            return column
        if isinstance(column, Ragged):
            raise self._unfit(field, "text, bytes or sequences of sequences", f"{self.verb.title()} it in transform=")
        if isinstance(column, np.ndarray) and column.ndim > 1:
            n_rows, length = column.shape[:2]
            return Ragged(column.reshape(n_rows * length, *column.shape[2:]), np.arange(n_rows + 1) * length)
        return self._of_values(field, list(column), indices)

    def _of_values(self, field: str, values: list[Any], indices: Indices) -> Ragged:
        arrays = [self._array(field, value) for value in values]
        forms = [array for array in arrays if array is not None]
        if not forms:
            return Ragged(np.zeros(0), np.zeros(len(arrays) + 1, np.int64))
        first = forms[0]
        for row, array in enumerate(arrays):
            if array is not None and (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
                raise SpecError(
                    f"values differ: {row_name(indices, row)} has {_described(array)}, "
                    f"another record {_described(first)}",
                    field=field,
                    remedy="Make them alike in transform=",
                )
        lengths = [0 if array is None else len(array) for array in arrays]
        return Ragged(np.concatenate(forms), np.cumsum([0, *lengths], dtype=np.int64))

    def _array(self, field: str, item: Any) -> NDArray[Any] | None:
        """Return a value as an array; `None` for a missing one, or an empty list, which has no dtype."""
        value = as_array(item)
        if value is None or (isinstance(value, (list, tuple)) and not value):
            return None
        numbers = (int, float, np.number, np.bool_)
        if isinstance(value, (list, tuple)) and all(isinstance(one, numbers) for one in value):
            value = np.array(value)
        if isinstance(value, (int, float, np.generic)):
            raise self._unfit(field, "a single number", "Do not name this field")
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
            raise self._unfit(field, f"a {type(value).__name__}", "Make it an array in transform=")
        if not value.ndim:
            raise self._unfit(field, "a single number", "Do not name this field")
        return value

    def _unfit(self, field: str, what: str, remedy: str) -> SpecError:
        return SpecError(f"expected sequences of numbers to {self.verb}, found {what}", field=field, remedy=remedy)


def _without(names: Sequence[str], columns: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: column for name, column in (columns or {}).items() if name not in names}


def field_names(names: Sequence[Any], verb: str) -> tuple[str, ...]:
    """Return the names of fields, each once.

    Raises:
        ValueError: `names` is empty, or one is not text.
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"expected the names of the fields to {verb}, found {names!r}")
    return tuple(dict.fromkeys(names))


def check_text(argument: str, value: Any, expected: str, refused: Sequence[str] = ()) -> None:
    """Raise unless an argument is `None`, or text that is neither empty nor refused."""
    if value is not None and (not isinstance(value, str) or value in ("", *refused)):
        raise ValueError(f"{argument}: expected {expected}, found {value!r}")


def fill_value(field: str, value: Any, ragged: Ragged) -> Any:
    """Return a padding value in the field's dtype; a float may be rounded.

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


def _described(array: NDArray[Any]) -> str:
    return f"{array.dtype}[{', '.join(['n', *map(str, array.shape[1:])])}]"
