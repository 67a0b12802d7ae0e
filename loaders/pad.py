"""Padding: a collate that fills up fields of different lengths."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.loaders.collate import plain, stacked

__all__ = ["Pad", "pad"]

Numbers = NDArray[np.int64] | None


def pad(*fields: str, to: int | None = None, value: Any = 0, truncate: bool = False, lengths: str | None = None) -> Pad:
    """Return a collate that makes arrays `(B, to, ...)` of these fields; all others become what they are without it.

    Args:
        *fields: Sequences of numbers, or of arrays of one shape.
        to: The length of every row; `None` takes the longest of each batch.
        value: What short ones are filled up with; the field's dtype must hold it.
        truncate: Cut what is longer than `to`, which is an error otherwise.
        lengths: Adds, for each field, a column int64[B] under the field's name and this suffix: how much of each row
            is from its record.

    Raises:
        ValueError: No field, or arguments that make no sense.

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
    """A collate that `pad` made: the meaning of the attributes stands there. Pickles.

    Attributes:
        fields: What is padded.
        to: The length of every row.
        value: The filler.
        truncate: Whether longer ones are cut.
        lengths: The suffix of the columns of lengths.
    """

    fields: tuple[str, ...]
    to: int | None
    value: Any
    truncate: bool
    lengths: str | None

    def __call__(self, records: Sequence[Any], numbers: Numbers = None) -> dict[str, Any]:
        """Return the columns of some records, as dicts; one that lacks a field gets a row of fillers.

        Empty Python lists have no dtype: where all of a batch are empty, it is float64.

        Args:
            records: Some records.
            numbers: Their numbers, for errors.

        Raises:
            SpecError: A value is too long, is none that can be padded, or differs in shape or dtype from the others.
        """
        if not records:
            return {}
        for record in records:
            if not isinstance(record, Mapping):
                raise SpecError(f"only fields can be padded, and a record is a {type(record).__name__}: pass collate=")
        names = list(dict.fromkeys(name for record in records for name in record))
        self._check_there(names)
        others = [{name: record[name] for name in record if name not in self.fields} for record in records]
        ragged = {field: _of_values(field, [record.get(field) for record in records], numbers) for field in self.fields}
        return self._merged(names, ragged, stacked(others, numbers), numbers)

    def of_columns(self, columns: Mapping[str, Any], numbers: Numbers = None) -> dict[str, Any]:
        """Return what calling it with the records of these columns gives, without making them; same errors."""
        self._check_there(list(columns))
        others = {name: column for name, column in columns.items() if name not in self.fields}
        ragged = {field: _of_column(field, columns[field], numbers) for field in self.fields}
        return self._merged(columns, ragged, plain(others, numbers), numbers)

    def _check_there(self, names: Sequence[str]) -> None:
        missing = [field for field in self.fields if field not in names]
        if missing:
            there = ", ".join(map(str, names)) or "none"
            raise SpecError(f"there is no such field to pad; there are {there}", field=missing[0])

    def _merged(
        self, names: Iterable[str], ragged: Mapping[str, Ragged], others: Mapping[str, Any], numbers: Numbers
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name in names:
            columns = self._padded(name, ragged[name], numbers) if name in ragged else {name: others[name]}
            if twice := made.keys() & columns:
                raise SpecError("lengths= gives a column the name of a field: pass another suffix", field=twice.pop())
            made |= columns
        return made

    def _padded(self, field: str, ragged: Ragged, numbers: Numbers) -> dict[str, Any]:
        if self.to is not None and int(ragged.lengths.max(initial=0)) > self.to:
            if not self.truncate:
                raise _too_long(field, ragged, self.to, numbers)
            ragged = _cut(ragged, self.to)
        value = _filler(field, self.value, ragged)
        made: dict[str, Any] = {field: ragged.pad(self.to, value)}
        if self.lengths is not None:
            made[field + self.lengths] = ragged.lengths
        return made


def _check_arguments(fields: Any, to: Any, truncate: bool, lengths: Any) -> None:
    if not fields or not all(isinstance(field, str) for field in fields):
        raise ValueError(f"expected the names of the fields to pad, found {fields!r}")
    if to is not None and (not isinstance(to, (int, np.integer)) or isinstance(to, bool) or to < 1):
        raise ValueError(f"expected to= as a whole number of at least 1, or None, found {to!r}")
    if truncate and to is None:
        raise ValueError("truncate=True needs to=, the length to cut at")
    if lengths is not None and (not isinstance(lengths, str) or not lengths):
        raise ValueError(f"expected lengths= as a suffix, '_length' say, found {lengths!r}")


# ---- what a field is made of


def _of_column(field: str, column: Any, numbers: Numbers) -> Ragged:
    if isinstance(column, Ragged) and column.item == "array" and isinstance(column.values, np.ndarray):
        return column
    if isinstance(column, Ragged):
        raise _unfit(field, "text, bytes or sequences of sequences", "pad it in transform=")
    if isinstance(column, np.ndarray) and column.ndim > 1:
        n_rows, length = column.shape[:2]
        return Ragged(column.reshape(n_rows * length, *column.shape[2:]), np.arange(n_rows + 1) * length)
    return _of_values(field, list(column), numbers)


def _of_values(field: str, values: list[Any], numbers: Numbers) -> Ragged:
    arrays = [_array(field, value) for value in values]
    forms = [array for array in arrays if array is not None]
    if not forms:
        return Ragged(np.zeros(0), np.zeros(len(arrays) + 1, np.int64))
    first = forms[0]
    for row, array in enumerate(arrays):
        if array is not None and (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
            raise SpecError(
                f"{_named(numbers, row)} has {_form(array)}, another {_form(first)}: make them alike in transform=",
                field=field,
            )
    lengths = [0 if array is None else len(array) for array in arrays]
    return Ragged(np.concatenate(forms), np.cumsum([0, *lengths], dtype=np.int64))


def _array(field: str, item: Any) -> NDArray[Any] | None:
    """Return a value as an array; `None` for one that is missing, or an empty list, which has no dtype."""
    torch = sys.modules.get("torch")  # whoever returns a tensor has imported it
    is_tensor = torch is not None and isinstance(item, torch.Tensor)
    value: Any = item.detach().cpu().numpy() if is_tensor else item
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    if isinstance(value, (list, tuple)) and all(isinstance(one, (int, float, np.number, np.bool_)) for one in value):
        value = np.array(value)
    if isinstance(value, (int, float, np.generic)):
        raise _unfit(field, "a single number", "leave it out")
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
        raise _unfit(field, f"a {type(value).__name__}", "make it an array in transform=")
    if not value.ndim:
        raise _unfit(field, "a single number", "leave it out")
    return value


def _cut(ragged: Ragged, to: int) -> Ragged:
    """Return items of at most `to` values."""
    first, last = int(ragged.offsets[0]), int(ragged.offsets[-1])
    within = np.arange(first, last) - np.repeat(ragged.offsets[:-1], ragged.lengths)
    lengths = np.minimum(ragged.lengths, to)
    values: Any = ragged.values
    return Ragged(values[first:last][within < to], np.cumsum([0, *lengths], dtype=np.int64))


def _filler(field: str, value: Any, ragged: Ragged) -> Any:
    """Return the filler in the field's dtype; a float may be rounded.

    Raises:
        SpecError: It would be another number there.
    """
    dtype = getattr(ragged.values, "dtype", np.dtype(float))
    try:
        with np.errstate(all="ignore"):
            made = np.asarray(value).astype(dtype)
        if np.all(made == value if dtype.kind in "biu" else np.isfinite(made) == np.isfinite(value)):
            return made
    except (TypeError, ValueError, OverflowError):
        pass
    raise SpecError(f"value={value!r} does not fit {dtype}, which the field is of: pass another to pad", field=field)


# ---- errors


def _too_long(field: str, ragged: Ragged, to: int, numbers: Numbers) -> SpecError:
    lengths = ragged.lengths
    row, others = int(lengths.argmax()), int((lengths > to).sum()) - 1
    return SpecError(
        f"{_named(numbers, row)} has {lengths[row]} values, more than to={to}"
        + (f", and so have {others} more of this batch" if others else "")
        + ": pass a larger to=, truncate=True, or to=None for the longest of each batch",
        field=field,
    )


def _unfit(field: str, what: str, remedy: str) -> SpecError:
    return SpecError(f"expected sequences of numbers to pad, found {what}: {remedy}", field=field)


def _named(numbers: Numbers, row: int) -> str:
    return f"row {row}" if numbers is None else f"record {numbers[row]}"


def _form(array: NDArray[Any]) -> str:
    return f"{array.dtype}[{', '.join(['n', *map(str, array.shape[1:])])}]"
