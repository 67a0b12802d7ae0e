"""Numbers as little-endian bytes: from blobs to arrays, and from columns to blobs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dataformats.batch import Blobs, Column, Ragged
from dataformats.batch.column_types import to_python_number
from dataformats.columns.exact_cast import DTYPES, to_exact_array
from dataformats.errors import CodecError, SpecError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces import Codec
from dataformats.spec import NUMBER_TYPES, Type, is_short_float

if TYPE_CHECKING:
    from numpy.typing import NDArray


_PACKED = {"|i1": "b", "<i2": "h", "<i4": "i", "<i8": "q", "|u1": "B", "<u2": "H", "<u4": "I", "<u8": "Q"}


class NumberColumn:
    """Decodes blobs into the column of a number type, and encodes columns; constants are computed once.

    Args:
        type_: A number type; `[]` may stand only first.
    """

    def __init__(self, type_: Type) -> None:
        self.kind = type_
        self._sequence = type_.dims[:1] == (None,)
        self._inner = cast("tuple[int, ...]", type_.dims[1:] if self._sequence else type_.dims)
        self._dtype: np.dtype[Any] = DTYPES[type_.codec]
        self._width = self._dtype.itemsize * math.prod(self._inner)

    def column(
        self, blobs: Blobs, counts: NDArray[np.int64] | None = None, field: str | None = None
    ) -> NDArray[Any] | Ragged:
        """Return the numbers of these blobs: see `FieldCodecs.decode`.

        Raises:
            CodecError: A blob has the wrong length, or a bool is neither 0 nor 1.
        """
        if self._sequence:
            return self._ragged(blobs, counts, field)
        values = blobs.packed(self._width)
        if values is None:
            raise self._misfit(blobs, blobs.lengths != self._width, counts, field)
        if counts is not None:
            check_counts(self.kind.element, counts, field)
        if self._dtype.kind == "b":
            _check_bools(values, lambda at: record_of(at // self._width, counts), field)
        return values.view(self._dtype).reshape((len(blobs), *self._inner))

    def value(self, blob: bytearray) -> Any:
        """Return the item that the column of one blob has, in place.

        Raises:
            ValueError: `column` reports what is wrong with the blob.
        """
        if self._dtype.kind == "b" and blob.strip(b"\0\1"):
            raise ValueError("bools are 0 or 1")
        values = np.frombuffer(blob, self._dtype)
        if self._inner:
            return values.reshape(-1, *self._inner) if self._sequence else values.reshape(self._inner)
        return values if self._sequence else to_python_number(values.reshape(1)[0])

    def blobs(self, column: Column) -> Blobs | None:
        """Return the blobs of a column of this type, in place, or of a list of values.

        Returns:
            `None` if they must be encoded one by one.

        Raises:
            SpecError: A value of the list does not fit the type.
        """
        if isinstance(column, list):
            return self._packed(column)
        if isinstance(column, Ragged) and self._sequence and column.present is None:
            values, lengths = column.values[column.offsets[0] : column.offsets[-1]], column.lengths
        elif isinstance(column, np.ndarray) and not self._sequence:
            values, lengths = column, np.ones(len(column), np.int64)
        else:
            return None
        if not isinstance(values, np.ndarray) or values.dtype != self._dtype or values.shape[1:] != self._inner:
            return None
        return Blobs.back_to_back(values, lengths * self._width) if values.flags.c_contiguous else None

    def _packed(self, values: list[Any]) -> Blobs | None:
        if self.kind.dims:
            if self._are_exact(values):
                return Blobs.back_to_back(np.concatenate(values), np.full(len(values), self._width, np.int64))
            arrays = [to_exact_array(self.kind, value) for value in values]
            lengths = np.fromiter((array.nbytes for array in arrays), np.int64, len(arrays))
            return Blobs.back_to_back(np.concatenate(arrays), lengths)
        code = _PACKED.get(self._dtype.str)
        if code is None or set(map(type, values)) != {int}:
            return None
        packed = np.frombuffer(bytearray(struct.pack(f"<{len(values)}{code}", *values)), self._dtype)
        return Blobs.back_to_back(packed, np.full(len(values), self._width, np.int64))

    def _are_exact(self, values: list[Any]) -> bool:
        """True if all values are arrays of exactly this fixed type: a third of the time of asking each."""
        if set(map(type, values)) != {np.ndarray} or {value.shape for value in values} != {self.kind.dims}:
            return False
        return {value.dtype for value in values} == {self._dtype}

    def _ragged(self, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None) -> Ragged:
        unfit = blobs.lengths % self._width != 0
        if unfit.any():
            raise self._misfit(blobs, unfit, counts, field)
        values, ends = blobs.contiguous()
        if self._dtype.kind == "b":
            _check_bools(values, lambda at: record_of(int(np.searchsorted(ends, at, side="right")) - 1, counts), field)
        elements = values.view(self._dtype).reshape((int(ends[-1]) // self._width, *self._inner))
        return Ragged(elements, (ends if counts is None else ends[offsets_of(counts)]) // self._width)

    def _misfit(
        self, blobs: Blobs, unfit: NDArray[np.bool_], counts: NDArray[np.int64] | None, field: str | None
    ) -> CodecError:
        blob = int(unfit.argmax())
        expected = f"a multiple of {self._width}" if self._sequence else str(self._width)
        return CodecError(
            f"expected {expected} bytes for {self.kind.required}, found {int(blobs.lengths[blob])}",
            codec=self.kind.codec,
            field=field,
            index=record_of(blob, counts),
        )


class NumberCodec(Codec):
    """One number as its little-endian bytes; `NumberColumn` handles shapes.

    Args:
        name: One of `NUMBER_TYPES` or `ML_TYPES`.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def _numbers(self) -> NumberColumn:
        return NumberColumn(Type(self.name))  # may import ml_dtypes

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a number, which must fit by the rules of `to_exact_array`."""
        return to_exact_array(self._numbers.kind, value).tobytes()

    def decode(self, blob: bytes) -> Any:
        """Return the number as a numpy scalar."""
        return self._numbers.column(Blobs.join([blob]))[0]

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return an ndarray (B,) of the dtype."""
        return self._numbers.column(blobs)

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of numbers of the dtype, or of a list of `int`."""
        return self._numbers.blobs(values)


def type_of_dtype(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Type:
    """Return the type of an array without objects: numbers, or an opaque type whose values are the bytes of an array.

    Example:
        >>> import numpy as np
        >>> from dataformats.columns.numbers import type_of_dtype
        >>> print(type_of_dtype(np.dtype("i4"), (2,)), type_of_dtype(np.dtype("M8[ns]"), ()))
        int32[2] datetime64(ns)
    """
    if dtype.name in NUMBER_TYPES or is_short_float(dtype):
        return Type(dtype.name, dims=shape)
    name, _, unit = dtype.name.partition("[")
    return Type(name, (unit[:-1],) if unit else ())


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[n+1]: 0, then the cumulative sum of the lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def is_run(records: NDArray[np.int64]) -> bool:
    """True if there are records, and each follows the one before it."""
    n = len(records)  # most batches are seen to be no run by their ends
    return n > 0 and records[-1] - records[0] == n - 1 and bool((records[1:] - records[:-1] == 1).all())


def check_counts(type_: Type, counts: NDArray[np.int64] | None, field: str | None) -> int:
    """Return the blobs of one element along the first dimension."""
    per_element = math.prod(cast("tuple[int, ...]", type_.dims[1:]))
    if per_element == 0:
        raise SpecError(f"{str(type_)!r}: cannot store a variable number of zero-size elements", field=field)
    if counts is None:
        return per_element
    first = type_.dims[0] if type_.dims else 1
    wrong = counts % per_element if first is None else counts != first * per_element
    for index in np.flatnonzero(wrong)[:1].tolist():
        expected = f"a multiple of {per_element}" if first is None else str(first * per_element)
        raise CodecError(
            f"expected {expected} blobs for {type_.required}, found {int(counts[index])}",
            codec=type_.codec,
            field=field,
            index=index,
        )
    return per_element


def record_of(blob: int, counts: NDArray[np.int64] | None) -> int:
    """Return the row of the record that a blob belongs to."""
    return blob if counts is None else int(np.searchsorted(np.cumsum(counts), blob, side="right"))


def _check_bools(values: NDArray[np.uint8], record_at: Callable[[int], int], field: str | None) -> None:
    wrong = np.flatnonzero(values > 1)
    if len(wrong):
        found, index = int(values[wrong[0]]), record_at(int(wrong[0]))
        raise CodecError(f"expected 0 or 1, found {found}", codec="bool", field=field, index=index)
