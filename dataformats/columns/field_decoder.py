"""Decode blobs into columns: numbers directly, everything else by its codec."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dataformats.batch import Blobs, Column, Ragged, StackedList
from dataformats.batch.column_types import to_python_number
from dataformats.batch.value_slices import SplitBlobs, ValueSlice
from dataformats.columns.column_cast import can_cast, cast_column
from dataformats.columns.exact_cast import cast_numbers
from dataformats.columns.masks import check_part, elements_of, insert_missing
from dataformats.columns.numbers import NumberCodec, NumberColumn, check_counts, offsets_of, record_of, type_of_dtype
from dataformats.errors import CodecError, MissingExtraError, Remedy, SpecError
from dataformats.interfaces import ArrayCodec, Codec, FieldCodecs, SequenceCodec
from dataformats.spec import Type
from dataformats.storage.threads import for_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

ColumnDecoder = Callable[[Blobs, "NDArray[np.int64] | None", "str | None"], Column]
"""Takes blobs, the blobs of each record (`None`: one), and the field's name for errors; returns the column."""


def column_decoder(codec: Codec, type_: Type, field: str | None) -> ColumnDecoder:
    """Return the function that decodes batches of a field stored as blobs: see `FieldCodecs.decode`.

    Args:
        codec: Decodes the elements.
        type_: The field's type.
        field: The field's name, for errors.

    Raises:
        SpecError: `[]` is not the first of the dims.
    """
    check_dims(type_, field)
    if isinstance(codec, NumberCodec):
        return NumberColumn(type_).column
    return functools.partial(_decode_nested if type_.dims else _decode_single, codec, type_)


def value_decoder(codec: Codec, type_: Type) -> Callable[[bytearray], Any] | None:
    """Return a function that decodes one blob as the item of its column; `None` if only a column can tell.

    The function may raise any error. Decoding the blob as a batch of one then reports it.

    Args:
        codec: Decodes the elements.
        type_: The field's type.
    """
    if isinstance(codec, NumberCodec):
        return NumberColumn(type_).value
    if type_.dims or not (codec.decodes_alike or type(codec).decode_batch is Codec.decode_batch):
        return None
    decode = codec.decode

    def value(blob: bytearray) -> Any:
        found = decode(bytes(blob))
        return to_python_number(found) if isinstance(found, np.generic) else found

    return value


class FieldDecoder:
    """Decodes one field that is stored apart; constants are computed once.

    Args:
        codecs: Resolves the codec of the elements.
        type_: The type that decodes the stored blobs.
        declared: The type that the spec gives the field.
        name: The field's name, for errors; `None`: a single value.

    Attributes:
        type_: The type that decodes the stored blobs.
        may_split: True if the codec may find a large value in the blobs to read apart.
        value: Decodes the blob of one record: see `value_decoder`.
    """

    def __init__(self, codecs: FieldCodecs, type_: Type, declared: Type, name: str | None) -> None:
        codec = codecs.codec(type_.element)
        self._declared = None if type_ == declared else declared
        self._casts = can_cast(type_, declared)
        self._is_list = type_.is_blob_list
        if isinstance(codec, ArrayCodec) and not type_.dims and self._declared is not None:
            codec = codec.specialized_for(declared)
        self.kind: Type = type_
        self._name = name
        self._codec = codec
        self.may_split: bool = isinstance(codec, ArrayCodec) and not type_.dims
        self._decode = column_decoder(codec, type_.required, name)
        self.value: Callable[[bytearray], Any] | None = None
        if self._declared is None:
            self.value = value_decoder(codec, type_)

    def decode(self, blobs: Blobs, counts: NDArray[np.int64] | None, part: bool | range = True) -> Column:
        """Return the column of these blobs: see `FieldCodecs.decode` and `conform`.

        Args:
            blobs: The blobs.
            counts: The number of blobs of each record; 1 or 0 for an optional type, -1 for a list that is missing.
            part: The elements to take of each record.
        """
        if not self.kind.optional:
            return self._part(blobs, counts, part)
        least = 0 if self._is_list else 1  # an empty list is present
        present = np.ones(len(blobs), np.bool_) if counts is None else counts >= least
        if isinstance(part, range):
            check_part(part, np.where(present, np.iinfo(np.int64).max, 0), str(self._name))
        with renumber_errors(np.flatnonzero(present)):
            column = self._part(blobs, counts[present] if self._is_list and counts is not None else None, part)
        return insert_missing(column, present, optional=True)

    def _part(self, blobs: Blobs, counts: NDArray[np.int64] | None, part: bool | range) -> Column:
        if isinstance(part, range) and isinstance(self._codec, SequenceCodec) and not self.kind.dims:
            return decode_part(self._codec, blobs, counts, part, self._name)
        column = self.conformed(self._decode(blobs, counts, self._name))
        return elements_of(column, part, str(self._name)) if isinstance(part, range) else column

    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return the slice to read apart from blobs like these."""
        return self._codec.value_slice(blobs) if isinstance(self._codec, ArrayCodec) else None

    def decode_split(self, split: SplitBlobs) -> Column | None:
        """Return the column of blobs whose value slice was read apart; `None` if they must be decoded whole."""
        if not isinstance(self._codec, ArrayCodec):
            return None
        try:
            column = self._codec.decode_split(split)
        except (MemoryError, MissingExtraError):
            raise
        except Exception:
            return None  # decoding the whole blobs reports the error, and the record that causes it
        return self.conformed(column) if column is not None and len(column) == len(split) else None

    def conformed(self, column: Column) -> Column:
        """Return a column of stored values as the declared type: see `cast_column` and `conform`."""
        if self._declared is None:
            return column
        if self._casts:
            return cast_column(column, self._declared, str(self._name))
        return conform(column, self._declared, field=self._name)


def decode_part(
    codec: SequenceCodec, blobs: Blobs, counts: NDArray[np.int64] | None, part: range, field: str | None
) -> Column:
    """Return the elements `part` of each value, decoded without the others: a list.

    Args:
        codec: Decodes the values.
        blobs: One blob for each record.
        counts: int64[n], blobs of each record; `None`: one each.
        part: The elements.
        field: The field's name, for errors.

    Raises:
        IndexError: A value has too few elements.
        CodecError: A blob does not decode, or there are too few or too many.
    """
    if counts is not None:
        check_counts(Type(codec.name), counts, field)
    check_part(part, np.full(len(blobs), np.iinfo(np.int64).max), str(field))
    column = _decode_elements(codec, blobs, None, field, part)
    fewest = min(map(len, column), default=len(part))
    if fewest < len(part):
        row = next(row for row, value in enumerate(column) if len(value) == fewest)
        raise IndexError(f"field {str(field)!r}: {part} goes past the elements of record {row} of this read")
    return column


def _decode_single(
    codec: Codec, type_: Type, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None
) -> Column:
    if counts is not None:
        check_counts(type_, counts, field)
    return _decode_elements(codec, blobs, None, field)


def _decode_nested(
    codec: Codec, type_: Type, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None
) -> Column:
    if counts is None:
        counts = np.ones(len(blobs), np.int64)
    per_element = check_counts(type_, counts, field)
    values: Any = _decode_elements(codec, blobs, counts, field)
    n_values = len(blobs)
    for size in reversed(type_.dims[1:]):
        n_values //= cast(int, size)
        values = Ragged(values, np.arange(n_values + 1, dtype=np.int64) * cast(int, size))
    return Ragged(values, offsets_of(counts // per_element))


@contextmanager
def renumber_errors(owners: NDArray[np.int64] | Sequence[int]) -> Iterator[None]:
    """Change the index of a `SpecError` or `CodecError` raised inside: row i becomes `owners[i]`."""
    try:
        yield
    except (CodecError, SpecError) as error:
        if error.index is None:
            raise
        raise error.at(int(owners[error.index])) from error.__cause__


def _decode_elements(
    codec: Codec, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None, part: range | None = None
) -> Column:
    decode: Callable[[bytes], Any] = codec.decode
    if part is not None and isinstance(codec, SequenceCodec):
        decode = functools.partial(codec.decode_part, part=part)
    try:
        column = codec.decode_batch(blobs) if part is None else _decode_each(decode, blobs)
    except (MemoryError, MissingExtraError):
        raise  # the machine or the installation causes these, not a record
    except Exception as error:
        culprit, cause = _first_failure(decode, blobs)
        raise CodecError(
            error_message(cause or error),
            codec=codec.name,
            field=field,
            index=None if culprit is None else record_of(culprit, counts),
        ) from (cause or error)
    if len(column) != len(blobs):
        raise CodecError(
            f"decode_batch gave {len(column)} values for {len(blobs)} blobs", codec=codec.name, field=field
        )
    return column


def _decode_each(decode: Callable[[bytes], Any], blobs: Blobs) -> list[Any]:
    found: list[Any] = [None] * len(blobs)

    def decode_row(row: int) -> None:
        found[row] = decode(blobs[row])

    for_each(decode_row, len(blobs))
    return found


def _first_failure(decode: Callable[[bytes], Any], blobs: Blobs) -> tuple[int | None, Exception | None]:
    for row, blob in enumerate(blobs):
        try:
            decode(blob)
        except MemoryError:
            raise
        except Exception as error:
            return row, error
    return None, None


def check_dims(type_: Type, field: str | None) -> None:
    """Raise if values of a type cannot be stored as blobs.

    Raises:
        SpecError: `[]` is not the first of the dims, or elements have size 0.
    """
    if None in type_.dims[1:]:
        raise SpecError(
            f"{str(type_)!r} cannot be stored as blobs: [] must be the first dimension, as in float32[][4]", field=field
        )
    if type_.dims[:1] == (None,) and 0 in type_.dims:
        raise SpecError(f"{str(type_)!r}: cannot store a variable number of zero-size elements", field=field)


def error_message(error: Exception) -> str:
    """Return the message of an error, for another error that chains it."""
    if isinstance(error, CodecError | SpecError):
        return error.what
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def conform(column: Any, declared: Type, *, field: str | None = None) -> Column:
    """Convert a column of arrays, as the codec `array` decodes it, to the column of a number type, exactly.

    Args:
        column: A list of arrays; a column of numbers is returned unchanged.
        declared: The type that a spec gives the field.
        field: Its name, for errors.

    Raises:
        SpecError: An array has another shape than declared, or a value does not fit; `index` is its row.
    """
    wanted = declared.dtype
    if not isinstance(column, list) or wanted is None:
        return cast("Column", column)
    stacked = column.stacked if isinstance(column, StackedList) else None
    alike = declared.fixed and stacked is not None and len(stacked)  # so checking the first one is enough
    arrays = [np.asarray(value) for value in (column[:1] if alike else column)]
    for row, array in enumerate(arrays):
        fits = array.ndim == len(declared.dims) and all(
            size in (None, there) for size, there in zip(declared.dims, array.shape, strict=True)
        )
        is_same = array.dtype.newbyteorder("=") == wanted.newbyteorder("=")
        if not fits or not (is_same or can_cast(type_of_dtype(array.dtype, ()), Type(declared.codec))):
            raise SpecError(
                f"expected {declared.required}, found {array.dtype}{list(array.shape)}",
                field=field,
                index=row,
                remedy=Remedy("Pass {spec} with a type that fits.", spec=...),
            )
        if not is_same and not alike:
            try:
                arrays[row] = cast_numbers(declared.required, array, field=field)
            except SpecError as error:
                raise error.at(row) from None
    if declared.fixed and stacked is not None:
        return np.ascontiguousarray(cast_numbers(declared.required, stacked, field=field), wanted)
    if declared.fixed:
        shape = (len(arrays), *cast("tuple[int, ...]", declared.dims))
        return np.stack(arrays).astype(wanted, copy=False) if arrays else np.zeros(shape, wanted)
    inner = cast("tuple[int, ...]", declared.dims[1:])
    values = np.concatenate(arrays) if arrays else np.zeros((0, *inner), wanted)
    return Ragged(values.astype(wanted, copy=False), offsets_of(np.array([len(a) for a in arrays], np.int64)))
