"""Pad: a collate function that pads fields of different lengths to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.integer_arguments import checked_int
from dataformats.loaders.collate import row_name
from dataformats.loaders.sequence_fields import Indices, SequenceFields, Split, check_text, field_names, fill_value

__all__ = ["Pad", "pad"]


def pad(
    *fields: str, length: int | None = None, value: Any = 0, truncate: bool = False, lengths: str | None = None
) -> Pad:
    """Return a collate function that pads these fields to arrays `(B, length, ...)`; other fields are not affected.

    Args:
        *fields: Names of fields that hold sequences of numbers, or of arrays of one shape.
        length: The length of every row; `None` takes the longest one of each batch.
        value: The padding value; the field's dtype must hold it.
        truncate: Cut rows longer than `length`, which otherwise raise.
        lengths: A suffix: adds, for each field, a column int64[B] under the field's name with this suffix, the length
            of each row before padding.

    Raises:
        ValueError: No field is named, or the arguments contradict each other.

    Example:
        >>> import dataformats
        >>> collate = dataformats.pad("tokens", length=4, lengths="_length")
        >>> batch = collate([{"tokens": [7, 8, 9], "label": 1}, {"tokens": [5], "label": 0}])
        >>> batch["tokens"]
        array([[7, 8, 9, 0],
               [5, 0, 0, 0]])
        >>> batch["tokens_length"], batch["label"]
        (array([3, 1]), array([1, 0]))
    """
    if truncate and length is None:
        raise ValueError("truncate=True needs a length to cut at, found length=None. Pass length=")
    check_text("lengths", lengths, "a suffix such as '_length'")
    length = None if length is None else checked_int("length", length, 1)
    return Pad(field_names(fields, "pad"), length, value, truncate, lengths)


@dataclass(frozen=True, slots=True)
class Pad:
    """The collate function that `pad` returns; see there. Pickles.

    Attributes:
        fields: The names of the fields to pad.
        length: The length of every row; `None`: the longest of the batch.
        value: The padding value.
        truncate: True if longer rows are cut.
        lengths: The suffix of the columns of lengths, or `None`.
    """

    fields: tuple[str, ...]
    length: int | None
    value: Any
    truncate: bool
    lengths: str | None

    def __call__(
        self, records: Sequence[Any], indices: Indices = None, like: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the columns of some records, which are dicts; a record that lacks a field gets a row of padding.

        Empty Python lists have no dtype: if all of a batch are empty, it is float64.

        Args:
            records: Some records.
            indices: Their indices, for errors.
            like: The columns that they had before a transform: other fields keep their types.

        Raises:
            SpecError: A value is too long, cannot be padded, or differs in shape or dtype from the others.
        """
        return self._padded(self._fields.of_records(records, indices, like), indices) if records else {}

    def of_columns(self, columns: Mapping[str, Any], indices: Indices = None) -> dict[str, Any]:
        """Return the same as a call with the records of these columns, without creating them; same errors."""
        return self._padded(self._fields.of_columns(columns, indices), indices)

    @property
    def _fields(self) -> SequenceFields:
        return SequenceFields(self.fields, "pad")

    def _padded(self, split: Split, indices: Indices) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for name in split.names:
            sequence = split.sequences.get(name)
            columns = {name: split.others[name]} if sequence is None else self._rows(name, sequence, indices)
            if taken := merged.keys() & columns:
                raise SpecError(
                    "lengths= gives a column the name of a field", field=taken.pop(), remedy="Pass another suffix"
                )
            merged |= columns
        return merged

    def _rows(self, field: str, ragged: Ragged, indices: Indices) -> dict[str, Any]:
        if self.length is not None and int(ragged.lengths.max(initial=0)) > self.length:
            if not self.truncate:
                raise _too_long(field, ragged, self.length, indices)
            ragged = _cut(ragged, self.length)
        value = fill_value(field, self.value, ragged)
        columns: dict[str, Any] = {field: ragged.pad(self.length, value)}
        if self.lengths is not None:
            columns[field + self.lengths] = ragged.lengths
        return columns


def _cut(ragged: Ragged, length: int) -> Ragged:
    """Return items of at most `length` values."""
    first, last = int(ragged.offsets[0]), int(ragged.offsets[-1])
    within = np.arange(first, last) - np.repeat(ragged.offsets[:-1], ragged.lengths)
    lengths = np.minimum(ragged.lengths, length)
    values: Any = ragged.values
    return Ragged(values[first:last][within < length], np.cumsum([0, *lengths], dtype=np.int64))


# ---- errors


def _too_long(field: str, ragged: Ragged, length: int, indices: Indices) -> SpecError:
    lengths = ragged.lengths
    row, others = int(lengths.argmax()), int((lengths > length).sum()) - 1
    return SpecError(
        f"{row_name(indices, row)} has {lengths[row]} values, more than length={length}"
        + (f", as have {others} more of this batch" if others else ""),
        field=field,
        remedy="Pass a larger length=, truncate=True, or length=None for the longest of each batch",
    )
