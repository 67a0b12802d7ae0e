"""Columns of the fields of JSON objects, and values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, Nullable, Ragged
from dataformats.codecs.documents import JSON
from dataformats.codecs.json_inference import JsonSamples
from dataformats.codecs.text import UTF8
from dataformats.columns.codec_resolver import holds_numbers
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.field_decoder import renumber_errors
from dataformats.columns.masks import check_part, elements_of, insert_missing
from dataformats.columns.numbers import offsets_of
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import FieldCodecs
from dataformats.spec import Spec, Type

_ABSENT = object()
_MAX_WIDTH = 8  # bytes of a number that Python's float holds
_SCALARS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {float}}


def check_spec(spec: Spec, codecs: FieldCodecs) -> None:
    """Raise if JSON cannot hold a spec.

    Raises:
        SpecError: A field is neither numbers nor text nor documents; the message names all such fields.
    """
    problems = [SpecError(why, field=name) for name, kind in spec.items() if (why := _problem(kind, codecs))]
    if problems:
        raise SpecError.of(problems)


def _problem(kind: Type, codecs: FieldCodecs) -> str:
    if None in kind.dims[1:]:
        return f"{kind}: [] must be the first dimension, as in float32[][4]"
    if kind.dtype is not None and holds_numbers(codecs, kind):
        is_known = kind.dtype.kind in "biuf" and kind.dtype.itemsize <= _MAX_WIDTH
        return "" if is_known else f"JSON has no {kind.codec}: declare float64"
    if codecs.codec(kind.element) in (UTF8, JSON):
        return ""
    return (
        f"JSON holds numbers, text and documents, found {kind}. Declare bytes that are text as utf8; leave "
        "other fields out, or write another format, such as TFRecord"
    )


def encodable(kind: Type, value: Any, field: str) -> Any:
    """Return a value as `json.dumps` takes it: numbers exact, text without lone surrogates.

    Raises:
        SpecError: It does not fit the type.
    """
    if kind.dtype is not None:
        return to_exact_array(kind, value, field=field).tolist()
    return _elements(kind, value, kind.dims, field)


def plain_values(column: Column, kind: Type) -> list[Any] | None:
    """Return the values of a column as `json.dumps` takes them, `None` for a missing one.

    Returns:
        `None` if the column does not hold numbers or text of exactly this type, which no check can refuse.
    """
    values = column.values if isinstance(column, Nullable) else column
    numbers = values.values if isinstance(values, Ragged) and kind.dims[:1] == (None,) else values
    if kind.dtype is not None:
        inner = kind.dims if numbers is values else kind.dims[1:]
        if not isinstance(numbers, np.ndarray) or numbers.dtype != kind.dtype or numbers.shape[1:] != inner:
            return None
        found = values.tolist() if isinstance(values, np.ndarray) else [part.tolist() for part in values]
    elif kind.codec == "utf8" and kind.dims in ((), (None,)) and getattr(numbers, "item_kind", "") == "utf8":
        found = [*values]
    else:
        return None
    present = getattr(column, "present", None)
    if present is None:
        return found
    if not kind.optional:
        return None
    return [value if here else None for value, here in zip(found, present.tolist(), strict=True)]


def _elements(kind: Type, value: Any, dims: tuple[int | None, ...], field: str) -> Any:
    if not dims:
        if kind.codec == "utf8" and not isinstance(value, str):
            raise SpecError(f"expected {kind}, found {type(value).__name__}", field=field)
        return value
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        raise SpecError(f"expected a sequence for {kind}, found {type(value).__name__}", field=field)
    parts = list(value)
    if dims[0] not in (None, len(parts)):
        raise SpecError(f"expected {dims[0]} elements for {kind}, found {len(parts)}", field=field)
    return [_elements(kind, part, dims[1:], field) for part in parts]


class FieldColumn:
    """Makes the column of one field from documents.

    Args:
        name: The field.
        kind: Its type.
        codecs: Resolves the type.
    """

    def __init__(self, name: str, kind: Type, codecs: FieldCodecs) -> None:
        self._name, self._kind, self._codecs = name, kind, codecs
        self._may_be_null = kind.codec == "json" and not kind.dims and not kind.optional

    def column(
        self,
        documents: Sequence[dict[str, Any]],
        blobs: Blobs,
        part: bool | range = True,
        held: Sequence[int] | None = None,
    ) -> Column:
        """Return the column.

        Args:
            documents: The records.
            blobs: Their bytes, for errors.
            part: The elements to take of each record.
            held: The rows of the documents that have the field, if some lack it; `None` looks into each.

        Raises:
            SpecError: A value does not fit the type; `index` is its row.
        """
        name = self._name
        absent: Any = _ABSENT if self._may_be_null else None
        if held is not None:
            values, present = [], np.zeros(len(documents), np.bool_)
            present[np.array([row for row in held if documents[row][name] is not absent], np.int64)] = True
        else:
            values = [document.get(name, absent) for document in documents]
            if not any(value is absent for value in values):
                column = self._taken(self._present(values, np.arange(len(values)), blobs), part)
                return insert_missing(column, np.ones(len(values), np.bool_), optional=self._kind.optional)
            present = np.array([value is not absent for value in values], np.bool_)
        if not self._kind.optional:
            row = int(present.argmin())
            found = "null" if name in documents[row] else "nothing"
            remedy = Remedy("Pass {spec} if records may lack it.", spec={name: f"{self._kind}?"})
            raise SpecError(f"expected {self._kind}, found {found}", field=name, index=row, remedy=remedy)
        rows = np.flatnonzero(present)
        if isinstance(part, range):
            check_part(part, np.where(present, np.iinfo(np.int64).max, 0), name)
        with renumber_errors(rows):
            if held is not None:
                values = [documents[row][name] for row in rows.tolist()]
            else:
                values = [value for value in values if value is not None]
            column = self._taken(self._present(values, rows, blobs), part)
        return insert_missing(column, present, optional=True)

    def _taken(self, column: Column, part: bool | range) -> Column:
        return elements_of(column, part, self._name) if isinstance(part, range) else column

    def _present(self, values: list[Any], rows: NDArray[np.int64], blobs: Blobs) -> Column:
        kind = self._kind
        if kind.dtype is not None:
            return self._numbers(values, rows, blobs)
        counts: list[NDArray[np.int64]] = []
        flat: list[Any] = values
        for size in kind.dims:
            if set(map(type, flat)) - {list} or (size is not None and set(map(len, flat)) - {size}):
                raise self._misfit(values)
            counts.append(np.fromiter(map(len, flat), np.int64, len(flat)))
            flat = list(chain.from_iterable(flat))
        column: Column = flat
        if kind.codec == "utf8":
            if set(map(type, flat)) - {str}:
                raise self._misfit(values)
            try:
                column = Ragged(*Blobs.join(list(map(str.encode, flat))).contiguous(), "utf8")
            except UnicodeEncodeError:
                raise self._misfit(values) from None
        for count in reversed(counts):
            column = Ragged(column, offsets_of(count))  # type: ignore[arg-type]  # a list, or text
        return column

    def _numbers(self, values: list[Any], rows: NDArray[np.int64], blobs: Blobs) -> Column:
        kind = self._kind
        dtype: np.dtype[Any] = kind.dtype  # type: ignore[assignment]  # a number type
        is_ragged = kind.dims[:1] == (None,)
        inner = tuple(size or 0 for size in (kind.dims[1:] if is_ragged else kind.dims))
        flat: list[Any] = values
        lengths = None
        for size in kind.dims:
            if set(map(type, flat)) - {list} or (size is not None and set(map(len, flat)) - {size}):
                raise self._misfit(values)
            if size is None:
                lengths = np.fromiter(map(len, flat), np.int64, len(flat))
            flat = list(chain.from_iterable(flat))
        kinds = set(map(type, flat))
        is_number = kinds <= _SCALARS[dtype.kind] or (dtype.kind == "f" and kinds <= {int, float})
        column = self._cast(flat, dtype, kinds) if is_number else None
        if column is None:
            raise self._misfit(values)
        if dtype.kind == "f" and np.isinf(column).any():
            place = _overflowing(values, rows, blobs)
            if place is not None:
                raise self._misfit(values, place)
        column = column.reshape(len(values) if lengths is None else int(lengths.sum()), *inner)
        return column if lengths is None else Ragged(column, offsets_of(lengths))

    def _cast(self, flat: list[Any], dtype: np.dtype[Any], kinds: set[type]) -> NDArray[Any] | None:
        """Return numbers in a dtype; `None` if one does not fit."""
        kind = Type(self._kind.codec, dims=(len(flat),))
        try:
            if dtype == np.int64 or (dtype == np.float64 and int not in kinds):
                return np.array(flat, dtype)
            return to_exact_array(kind, flat)
        except (SpecError, OverflowError):
            return None

    def _misfit(self, values: Sequence[Any], row: int | None = None) -> SpecError:
        """Return the error of a row, by default the first one that does not fit."""
        kind = self._kind
        if row is None:
            row = next((at for at, value in enumerate(values) if not self._fits(value)), 0)
        found = _shown(values[row])
        fitting = JsonSamples.of_type(kind)  # it must fit the other records too
        for value in values:
            fitting.add(value)
        found_type = fitting.type_of(fitting.n)
        better = Type("json") if found_type == kind.required else found_type
        remedy = Remedy("Pass {spec}.", spec={self._name: f"{better}" + "?" * kind.optional})
        return SpecError(f"expected {kind.required}, found {found}", field=self._name, index=row, remedy=remedy)

    def _fits(self, value: Any) -> bool:
        kind = self._kind
        if kind.dtype is None:
            return _fits_text(value, kind.dims, kind.codec)
        try:
            to_exact_array(kind, value)
        except SpecError:
            return False
        return True


def _fits_text(value: Any, dims: tuple[int | None, ...], codec: str) -> bool:
    if dims:
        is_list = type(value) is list and dims[0] in (None, len(value))
        return is_list and all(_fits_text(part, dims[1:], codec) for part in value)
    if codec != "utf8":
        return True
    return type(value) is str and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _overflowing(values: Sequence[Any], rows: NDArray[np.int64], blobs: Blobs) -> int | None:
    """Return the place of the first value with a number like 1e999, which is read as infinite, or `None`."""
    for at, value in enumerate(values):
        is_infinite = np.isinf(np.array(value, np.float64)).any()
        if is_infinite and b"Infinity" not in bytes(blobs.view(int(rows[at]))):
            return at
    return None


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, float) and math.isinf(value):
        return "a number that float64 does not hold"
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}"
