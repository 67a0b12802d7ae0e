"""Decode the blobs of a batch into columns: a decoder is bound to a source once, and each read calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs, Column, RecordBatch
from dataformats.batch.value_slices import SliceHints, SplitBlobs, StoredBlobs, ValueSlice, join_blobs
from dataformats.columns.column_cast import cast_elements
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.columns.masks import elements_of
from dataformats.columns.shaped_fields import ShapedFields
from dataformats.columns.stored_type import stored_type
from dataformats.errors import CodecError, FormatError, SpecError
from dataformats.interfaces import FieldCodecs, Reader, RecordCoder
from dataformats.spec import VALUE, Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask = Mapping[str, "bool | range"]
"""The fields of a read: each whole (`True`), or a range of a sequence's elements."""

DECODE_ERRORS = (FormatError, CodecError, SpecError)
"""The errors of `BatchDecoder.decode` that a record causes."""

_FIRST = np.zeros(1, np.int64)


class BatchDecoder(ABC):
    """Decodes batches of one source. Thread-safe.

    Args:
        spec: The fields.
        single: True if records are single values.

    Attributes:
        spec: The fields.
        single: True if records are single values.
        all_fields: The mask of all fields.
        masks: The masks that earlier reads resolved, by their names.
        hints: Where earlier batches had large values.
    """

    def __init__(self, spec: Spec, *, single: bool) -> None:
        self.spec: Spec = spec
        self.single: bool = single
        self.all_fields: dict[str, bool | range] = dict.fromkeys(spec, True)
        self.masks: dict[tuple[str, ...], dict[str, bool | range]] = {}
        self.hints: SliceHints = SliceHints()
        self._shaped = ShapedFields(spec)

    def stored(self, mask: Mask) -> Mask:
        """Return the mask of the values that decode these fields: with those that hold sizes of their arrays."""
        return self._shaped.stored(mask)

    @abstractmethod
    def slices(self, mask: Mask) -> Sequence[ValueSlice | None]:
        """Return, for each stored field, the slice of its blobs that is read straight into a column.

        Empty if no field has one.
        """

    def decode(self, stored: StoredBlobs, mask: Mask) -> dict[str, Column]:
        """Return a column for each field of the mask.

        Args:
            stored: The blobs of these fields, or of `VALUE` for whole records or single values.
            mask: The fields.

        Raises:
            CorruptRecordError: A record does not parse; `index` is its row in the batch.
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """
        return self._shaped.columns(self._columns(stored, self.stored(mask)), mask)

    @abstractmethod
    def _columns(self, stored: StoredBlobs, mask: Mask) -> dict[str, Column]:
        """Return a column for each field of a stored mask: see `decode`."""

    def decode_record(self, blobs: Sequence[bytearray], mask: Mask) -> Any:
        """Return one record, equal to the record in a batch of one.

        Any error is one of the record, which `decode` reports.

        Args:
            blobs: The blob of each stored field of the mask, or of the whole record. They may become arrays of it.
            mask: The fields.
        """
        stored = {name: (Blobs.of(blob), None) for name, blob in zip(self._stored_fields(mask), blobs, strict=True)}
        return RecordBatch(self.decode(stored, mask), _FIRST, {}, self.single)[0]

    @abstractmethod
    def _stored_fields(self, mask: Mask) -> Iterable[str]:
        """Return the stored fields of a mask."""


def bind(reader: Reader, spec: Spec, codecs: FieldCodecs, coder: RecordCoder | None, written: Spec) -> BatchDecoder:
    """Return the decoder of a source.

    Args:
        reader: Knows the types of fields that are stored apart.
        spec: The fields.
        codecs: Resolves the types of fields, or of single values.
        coder: Decodes whole records; `None` if they are single values or have fields that are stored apart.
        written: The types under which the coder decodes numbers, which are then cast.
    """
    return _FieldwiseDecoder(reader, spec, codecs) if coder is None else _RecordDecoder(spec, coder, written)


class _RecordDecoder(BatchDecoder):
    """Decodes blobs that are whole records."""

    def __init__(self, spec: Spec, coder: RecordCoder, written: Spec) -> None:
        super().__init__(spec, single=False)
        self._coder = coder
        self._casts = {name: kind for name, kind in spec.items() if written[name] != kind}

    def slices(self, mask: Mask) -> Sequence[ValueSlice | None]:
        known = self.hints.known
        return (known.get(tuple(self.stored(mask))),) if known else ()

    def _columns(self, stored: StoredBlobs, mask: Mask) -> dict[str, Column]:
        read, _ = stored[VALUE]
        if isinstance(read, SplitBlobs):
            columns = self._coder.decode_split(read, mask)
            if columns is not None:
                return self._cast(columns)
            self.hints.forget(tuple(mask))
        blobs = join_blobs(read)
        columns = self._coder.decode_batch(blobs, mask)
        self.hints.learn(tuple(mask), len(blobs), lambda: self._coder.value_slice(blobs, mask))
        return self._cast(columns)

    def _cast(self, columns: dict[str, Column]) -> dict[str, Column]:
        for name in self._casts.keys() & columns.keys():
            columns[name] = cast_elements(columns[name], self._casts[name], name)
        return columns

    def decode_record(self, blobs: Sequence[bytearray], mask: Mask) -> Any:
        record = None if self._casts or self._shaped.types else self._coder.decode_record(blobs[0], mask)
        return super().decode_record(blobs, mask) if record is None else record

    def _stored_fields(self, mask: Mask) -> Iterable[str]:
        return (VALUE,)


class _FieldwiseDecoder(BatchDecoder):
    """Decodes fields that are stored apart, or single values. Binds a field when it is first read."""

    def __init__(self, reader: Reader, spec: Spec, codecs: FieldCodecs) -> None:
        super().__init__(spec, single=reader.spec is None)
        self._reader = reader
        self._codecs = codecs
        self._fields: dict[str, FieldDecoder] = {}
        self._value: Callable[[bytearray], Any] | None = None  # decodes a single value, once its field is bound

    def slices(self, mask: Mask) -> Sequence[ValueSlice | None]:
        known = self.hints.known
        return [known.get(name) for name in self.stored(mask)] if known else ()

    def _columns(self, stored: StoredBlobs, mask: Mask) -> dict[str, Column]:
        return {name: self._column(name, *stored[name], part) for name, part in mask.items()}

    def decode_record(self, blobs: Sequence[bytearray], mask: Mask) -> Any:
        if self._value is not None and mask is self.all_fields:
            return self._value(blobs[0])
        if self._shaped.types:
            return super().decode_record(blobs, mask)
        record = {}
        for blob, (name, part) in zip(blobs, mask.items(), strict=True):
            field = self._fields.get(name) or self._bind(name)
            if field.value is None or part is not True:
                return super().decode_record(blobs, mask)
            record[name] = field.value(blob)
        return record[VALUE] if self.single else record

    def _stored_fields(self, mask: Mask) -> Iterable[str]:
        return self.stored(mask)

    def _column(
        self, name: str, read: Blobs | SplitBlobs, counts: NDArray[np.int64] | None, part: bool | range
    ) -> Column:
        field = self._fields.get(name) or self._bind(name)
        if (
            isinstance(part, range) and counts is not None and not field.kind.optional
        ):  # the reader applied it: dims may be fewer than declared
            kind = replace(field.kind, dims=(None, *field.kind.dims[1:]))
            return field.conformed(self._codecs.decode(kind, join_blobs(read), counts, field=name))
        if isinstance(read, SplitBlobs):
            split = field.decode_split(read)
            if split is not None:
                return elements_of(split, part, name) if isinstance(part, range) else split
            self.hints.forget(name)
        blobs = join_blobs(read)
        column = field.decode(blobs, counts, part)
        if counts is None and field.may_split and not field.kind.optional:
            self.hints.learn(name, len(blobs), lambda: field.value_slice(blobs))
        return column

    def _bind(self, name: str) -> FieldDecoder:
        declared = self.spec[name]
        kind = declared if self.single else stored_type(self._reader, name, declared)
        field = self._fields[name] = FieldDecoder(self._codecs, kind, declared, None if self.single else name)
        if self.single:
            self._value = field.value
        return field
