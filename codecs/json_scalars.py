"""Columns of numbers, text and lists of integers in JSON objects, without a Python object for each value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, Ragged
from dataformats.codecs.documents import MAX_BYTES
from dataformats.columns.masks import insert_missing
from dataformats.columns.numbers import offsets_of
from dataformats.kernels import (
    JsonKind,
    JsonValues,
    bytes_list,
    find_json_fields,
    gather,
    read_json_integers,
    unescape_json,
)
from dataformats.spec import Spec, Type


def _flags(*kinds: JsonKind) -> NDArray[np.bool_]:
    """Return bool[n_kinds], True for these: a lookup takes a tenth of the time of `np.isin`."""
    return np.isin(np.arange(len(JsonKind)), kinds)


_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_VALUES = {
    "bool": _flags(JsonKind.BOOL),
    "float64": _flags(JsonKind.FLOAT, JsonKind.INTEGER),
    "int64[]": _flags(JsonKind.NESTED),
    "utf8": _flags(JsonKind.TEXT, JsonKind.ESCAPED),
    **dict.fromkeys(_INTEGERS, _flags(JsonKind.INTEGER)),
}
_MAX_DIGITS = 64  # characters: numpy makes an array of texts that are all as long as the longest
_EXACT = 2**53  # smaller integers are floats
_MAX_NAMES = 100  # a key that is not where it is expected is compared with all of them
_VALUE_BYTES = 25  # what the kernel notes for each name in each record, whether it is there or not
_SPARE_BYTES = 64 * 2**20


class ScalarColumns:
    """Makes the columns of some fields from the bytes of records, if all values fit and no record needs an error.

    Args:
        spec: The types of all fields.
        is_closed: True if a record must have no other fields.
    """

    def __init__(self, spec: Spec, *, is_closed: bool) -> None:
        self._spec = spec
        self._is_closed = is_closed

    def columns(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column] | None:
        """Return a column for each requested field; `None` if the records must be parsed one by one."""
        wanted = {name: self._spec[name] for name, part in fields.items() if part is not False}
        names = tuple(self._spec) if self._is_closed else tuple(wanted)
        is_simple = all(str(kind.required) in _VALUES for kind in wanted.values())
        if not is_simple or len(names) > _MAX_NAMES or any(isinstance(part, range) for part in fields.values()):
            return None
        if not wanted or not len(blobs) or blobs.lengths.max() > MAX_BYTES:
            return None
        if len(names) * len(blobs) * _VALUE_BYTES > _SPARE_BYTES + 2 * int(blobs.lengths.sum()):
            return None  # short records of many fields
        try:
            keys = tuple(map(str.encode, names))
        except UnicodeEncodeError:
            return None
        found = find_json_fields(blobs.buffer, blobs.starts, blobs.lengths, keys, only_names=self._is_closed)
        if found is None:
            return None
        values, columns = dict(zip(names, found, strict=True)), dict[str, Column]()
        for name, kind in wanted.items():
            column = _column(blobs.buffer, values[name], kind)
            if column is None:
                return None
            columns[name] = column
        return columns


def _column(buffer: NDArray[np.uint8], values: JsonValues, kind: Type) -> Column | None:
    is_value = _VALUES[str(kind.required)][values.kinds]
    if is_value.all():
        column = _present(buffer, values, kind)
    elif kind.optional and (is_value | (values.kinds <= JsonKind.NULL)).all():
        kinds, begins, lengths, numbers = values
        some = JsonValues(kinds[is_value], begins[is_value], lengths[is_value], numbers[is_value])
        column = _present(buffer, some, kind)
    else:
        return None
    return None if column is None else insert_missing(column, is_value, optional=kind.optional)


def _present(buffer: NDArray[np.uint8], values: JsonValues, kind: Type) -> Column | None:
    if kind.codec == "utf8":
        if (values.kinds == JsonKind.TEXT).all():
            return Ragged(*gather(buffer, values.begins, values.lengths), "utf8")
        text, lengths = unescape_json(buffer, values.begins, values.lengths)
        return Ragged(text, offsets_of(lengths), "utf8")
    if kind.dims:
        found = read_json_integers(buffer, values.begins, values.lengths)
        return None if found is None else Ragged(found[0], offsets_of(found[1]))
    if kind.codec != "float64":
        numbers = values.numbers.astype(kind.dtype)
        return numbers if (numbers == values.numbers).all() else None
    is_integer, integers = values.kinds == JsonKind.INTEGER, values.numbers
    if (np.abs(integers[is_integer]) > _EXACT).any() or values.lengths.max(initial=0) > _MAX_DIGITS:
        return None
    floats = np.array(bytes_list(buffer, values.begins, values.lengths), f"S{_MAX_DIGITS}").astype(np.float64)
    floats[is_integer] = integers[is_integer]  # -0 is no -0.0
    return None if np.isinf(floats).any() else floats
