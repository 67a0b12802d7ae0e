"""From a batch of feature maps to the columns of a mask: what is simple in one native call, the rest with care."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs, Column, Nullable, Ragged
from dataformats.batch.inline_values import SplitBlobs
from dataformats.codecs.features.columns import Target, to_column
from dataformats.codecs.features.feature import FEATURE
from dataformats.codecs.features.feature_column import FeatureColumn
from dataformats.codecs.text import BYTES
from dataformats.columns.codec_resolver import holds_numbers
from dataformats.columns.decode import decode_column
from dataformats.columns.exact import DTYPES
from dataformats.errors import SpecError, UnknownNameError
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.kernels.buffers import empty, rows
from dataformats.kernels.wire import Shape, survey_of
from dataformats.kernels.wire_columns import (
    APART,
    AS_FOUND,
    DENSE,
    JOINED,
    MADE,
    PLACED,
    RAGGED,
    Output,
    columns_of,
)
from dataformats.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Direct"]

_MOST_SIZE, _MOST_WIDTH = 2**31 - 1, 8  # of what the kernels take


class Direct:
    """The columns of one mask. Thread-safe.

    Args:
        shape: What the records are.
        codecs: Where the fields' codecs come from.
        spec: The fields.
        closed: Records must have no others: the spec was inferred.
        mask: The fields asked for, and their parts.
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
        self._fields = [_Field(shape, codecs, Target(name, spec[name]), part) for name, part in asked]
        known = [(0, name) for name in spec] if closed else None
        outputs = [field.output for field in self._fields]
        self._made = columns_of(shape, [(0, name) for name, _ in asked], outputs, known)

    def columns(self, blobs: Blobs, around: SplitBlobs | None = None) -> dict[str, Column] | None:
        """Return a column for each field; `None` where something is to be said of a record as a whole.

        Args:
            blobs: The records.
            around: Given where their window was read apart; it must be what some field has in all records, or else
                only the whole records can tell, and the answer is `None` too.

        Raises:
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """
        starts = np.ascontiguousarray(blobs.starts, np.int64)
        lengths = np.ascontiguousarray(blobs.lengths, np.int64)
        made = self._made(blobs.buffer, starts, lengths, None if around is None else around.value_slice)
        if made is None:
            return None
        columns: dict[str, Column] = {}
        for field, (how, first, second) in zip(self._fields, made, strict=True):
            plain = how == MADE and field.is_plain
            columns[field.target.name] = first if plain else field.column(blobs, around, how, first, second)
        return columns


class _Field:
    """One field: what it is to become, and the column of what it became.

    Attributes:
        target: Name and type.
        output: What the kernels shall make of it.
        is_plain: True where what they make is the column itself.
    """

    def __init__(self, shape: Shape, codecs: FieldCodecs, target: Target, part: bool | range) -> None:
        self._shape = shape
        self._codecs = codecs
        self._part = part if isinstance(part, range) else None
        self._dtype, self._inner = _elements(target)
        self.target = target
        self.output = _output(codecs, target) if part is True else Output(AS_FOUND)
        self.is_plain = self.output.output == DENSE and not target.kind.optional
        self._item = "bytes" if self.output.output == JOINED else "array"

    def column(self, blobs: Blobs, around: SplitBlobs | None, how: int, first: Any, second: Any) -> Column:
        """Return the column of what the kernels made, or found: see `kernels/reference/wire_columns.py`."""
        if not how & MADE:
            stored = self._stored(blobs, first)
            stored = stored.moved(around.rows) if how & APART and around is not None else stored
            return to_column(self._codecs, self.target, stored, self._part)
        if around is not None and how & APART:
            first = around.rows.view(self._dtype).reshape(-1, *self._inner)
        column: Column = first
        if self.output.output == PLACED:
            found = Blobs(blobs.buffer, first, second)
            column = decode_column(self._codecs, self.target.kind, found, field=self.target.name)
        elif second is not None:
            return Ragged(first, second, self._item)
        if not self.target.kind.optional or isinstance(column, Ragged | Nullable):
            return column
        return Nullable(column, np.ones(len(blobs), np.bool_))

    def _stored(self, blobs: Blobs, features: NDArray[np.int64]) -> FeatureColumn:
        table = features.reshape(len(blobs), -1)
        return FeatureColumn(self._shape, blobs.buffer, table, *survey_of(table).tolist())


def _elements(target: Target) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of what a column's values are: numbers, or else bytes."""
    dtype = DTYPES.get(target.kind.codec)
    return (np.dtype(np.uint8), ()) if dtype is None else (dtype, target.inner)


def _output(codecs: FieldCodecs, target: Target) -> Output:
    """Return what the kernels can make of a field in the records where all is simple."""
    codec = _codec(codecs, target)
    if codec is None or codec is FEATURE:
        return Output(AS_FOUND)
    if holds_numbers(codecs, target.kind):
        return _numbers(target)
    if target.kind.dims:
        return Output(AS_FOUND)
    return Output(JOINED, make=empty) if codec is BYTES else Output(PLACED)


def _numbers(target: Target) -> Output:
    dtype, inner = _elements(target)
    size = math.prod(inner)
    if dtype.kind not in "biuf" or dtype.itemsize > _MOST_WIDTH or not 0 < size <= _MOST_SIZE:
        return Output(AS_FOUND)
    return Output(RAGGED if target.sequence else DENSE, dtype.kind, dtype.itemsize, size, rows(dtype, inner))


def _codec(codecs: FieldCodecs, target: Target) -> Codec | None:
    try:
        return codecs.codec(target.kind.element)
    except (UnknownNameError, SpecError):
        return None  # which is said of values that are there to be decoded
