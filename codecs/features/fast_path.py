"""The fast path from a batch of feature maps to the columns of a mask: one native call for all simple fields."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs, Column, Nullable, Ragged
from dataformats.batch.value_slices import SplitBlobs
from dataformats.codecs.features.feature import FEATURE
from dataformats.codecs.features.located_features import WireColumn
from dataformats.codecs.features.spec_columns import Target, to_column
from dataformats.codecs.text import BYTES, UTF8
from dataformats.columns.codec_resolver import holds_numbers
from dataformats.columns.field_decoder import value_decoder
from dataformats.errors import SpecError, UnknownNameError
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.kernels.buffers import empty, rows
from dataformats.kernels.wire import Shape, survey_of
from dataformats.kernels.wire_columns import (
    AS_FOUND,
    DENSE,
    FILLED,
    JOINED,
    PLACED,
    RAGGED,
    SLICED,
    TEXT,
    Filled,
    Output,
    Value,
    ValueForm,
    plan_columns,
)
from dataformats.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_FORMS = {DENSE: ValueForm.ROW, RAGGED: ValueForm.ELEMENTS, JOINED: ValueForm.BYTES, TEXT: ValueForm.TEXT}
_MAX_SIZE, _MAX_WIDTH = 2**31 - 1, 8  # limits of the kernels


class FastPath:
    """Decodes the fields of one mask. Thread-safe.

    Args:
        shape: The message type of the records.
        codecs: Resolves the fields' codecs.
        spec: The fields.
        closed: Records must have no others, because the spec was inferred.
        mask: The fields to decode, and their parts.

    Attributes:
        values: Returns the values of one record; `None` if it must be decoded as a batch.
    """

    def __init__(
        self,
        shape: Shape,
        codecs: FieldCodecs,
        spec: Spec,
        closed: bool,
        mask: tuple[tuple[str, bool | range], ...],
    ) -> None:
        asked = [(name, part) for name, part in mask if part is not False]
        self._fields = [_DecodedField(shape, codecs, Target(name, spec[name]), part) for name, part in asked]
        known = [(0, name) for name in spec] if closed else None
        outputs, wanted = [field.output for field in self._fields], [(0, name) for name, _ in asked]
        values = [value for field in self._fields if (value := field.value()) is not None]
        has_values = len(values) == len(outputs)
        self._fill, self.values = plan_columns(shape, wanted, outputs, values if has_values else None, known)

    def columns(self, blobs: Blobs, split: SplitBlobs | None = None) -> dict[str, Column] | None:
        """Return a column for each field; `None` if the slow path must decode, or report a bad record.

        Args:
            blobs: The records.
            split: Given if their value slice was read elsewhere. The slice must be the values of some field in all
                records; else only the whole records can be decoded, and the result is `None`.

        Raises:
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """
        starts = np.ascontiguousarray(blobs.starts, np.int64)
        lengths = np.ascontiguousarray(blobs.lengths, np.int64)
        filled = self._fill(blobs.buffer, starts, lengths, None if split is None else split.value_slice)
        if filled is None:
            return None
        columns: dict[str, Column] = {}
        for field, found in zip(self._fields, filled, strict=True):
            plain = found[0] == FILLED and field.is_plain
            columns[field.target.name] = found[1] if plain else field.column(blobs, split, found)
        return columns


class _DecodedField:
    """One field: the output of the kernels, and its column.

    Attributes:
        target: Name and type.
        output: The column that the kernels fill.
        is_plain: True if that is the column of the field.
    """

    def __init__(self, shape: Shape, codecs: FieldCodecs, target: Target, part: bool | range) -> None:
        self._shape = shape
        self._codecs = codecs
        self._part = part if isinstance(part, range) else None
        self._dtype, self._inner = _elements(target)
        self.target = target
        self.output = _output(codecs, target) if part is True else Output(AS_FOUND)
        self.is_plain = self.output.output == DENSE and not target.kind.optional
        self._item = {JOINED: "bytes", TEXT: "utf8"}.get(self.output.output, "array")

    def column(self, blobs: Blobs, split: SplitBlobs | None, filled: Filled) -> Column:
        """Return the column, from the result of `kernels.wire_columns.FillColumns`."""
        flags, first, second, present = filled
        if not flags & FILLED:
            stored = self._stored(blobs, first)
            stored = stored.with_values(split.rows) if flags & SLICED and split is not None else stored
            return to_column(self._codecs, self.target, stored, self._part)
        if split is not None and flags & SLICED:
            first = split.rows.view(self._dtype).reshape(-1, *self._inner)
        column: Column = first
        if self.output.output == PLACED:
            values = Blobs(blobs.buffer, first, second)
            column = self._codecs.decode(self.target.kind, values, field=self.target.name)
        elif second is not None:
            return Ragged(first, second, self._item, present)
        if not self.target.kind.optional or isinstance(column, Ragged | Nullable):
            return column
        return Nullable(column, np.ones(len(blobs), np.bool_) if present is None else present)

    def value(self) -> Value | None:
        """Return the value that the kernels can read for the field; `None` if it needs a column."""
        kind, output = self.target.kind, self.output.output
        form, decode = _FORMS.get(output), None
        if output == DENSE and not self._inner:
            form = None if self._dtype == np.float16 else ValueForm.NUMBER
        elif output == PLACED:
            decode = value_decoder(self._codecs.codec(kind.element), kind)
            form = None if decode is None else ValueForm.DECODED
        return Value(form, kind.optional or self.target.sequence, self.target.name, decode) if form else None

    def _stored(self, blobs: Blobs, features: NDArray[np.int64]) -> WireColumn:
        table = features.reshape(len(blobs), -1)
        return WireColumn(self._shape, blobs.buffer, table, *survey_of(table).tolist())


def _elements(target: Target) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of a column's values: numbers, or else bytes."""
    dtype = target.kind.dtype
    return (np.dtype(np.uint8), ()) if dtype is None else (dtype, target.inner)


def _output(codecs: FieldCodecs, target: Target) -> Output:
    """Return the column that the kernels can fill for a field, if all records are simple."""
    codec = _codec(codecs, target)
    if codec is None or codec is FEATURE:
        return Output(AS_FOUND)
    if holds_numbers(codecs, target.kind):
        return _numbers(target)
    if target.kind.dims:
        return Output(AS_FOUND)
    if codec is BYTES or codec is UTF8:
        return Output(JOINED if codec is BYTES else TEXT, new=empty, new_present=_new_present(target))
    return Output(PLACED)


def _numbers(target: Target) -> Output:
    dtype, inner = _elements(target)
    size = math.prod(inner)
    if dtype.kind not in "biuf" or dtype.itemsize > _MAX_WIDTH or not 0 < size <= _MAX_SIZE:
        return Output(AS_FOUND)
    output, new = RAGGED if target.sequence else DENSE, rows(dtype, inner)
    return Output(output, dtype.kind, dtype.itemsize, size, new, _new_present(target))


def _new_present(target: Target) -> Callable[[int], NDArray[np.bool_]] | None:
    return _bools if target.kind.optional or target.sequence else None


_bools = rows(np.dtype(np.bool_), ())


def _codec(codecs: FieldCodecs, target: Target) -> Codec | None:
    try:
        return codecs.codec(target.kind.element)
    except (UnknownNameError, SpecError):
        return None  # raised again when there are values to decode
