"""Reads files whose records are rows of a fixed size: no index, only arithmetic."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dataformats.columns.column_cast import can_read_bits
from dataformats.columns.common_type import types_known_in
from dataformats.columns.numbers import type_of_dtype
from dataformats.errors import FormatError, Remedy, SpecError
from dataformats.indexing.lookup import file_of
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.spec import ML_TYPES, NUMBER_TYPES, Spec, Type


@dataclass(frozen=True, slots=True)
class FixedRows:
    """Where one field of the records of a file lies.

    Attributes:
        type: The type of a row.
        row_bytes: Its bytes.
        first: The byte at which the first row begins.
        step: Bytes from the beginning of a row to the beginning of the next one.
        count: How many rows the file claims to have.
    """

    type: Type
    row_bytes: int
    first: int
    step: int
    count: int

    @classmethod
    def of(cls, file: StoredFile, dtype: np.dtype[Any], shape: Sequence[int], first: int) -> Self:
        """Return the rows along the first axis of an array. Values of an opaque type are one blob a row.

        Args:
            file: The file that holds the array, for errors.
            dtype: Its dtype.
            shape: Its shape, of one dimension or more.
            first: The byte at which it begins.

        Raises:
            FormatError: It holds objects, or values in big-endian order, or its rows have no bytes, or too many.
        """
        if dtype.hasobject or dtype != dtype.newbyteorder("<"):
            remedy = f"Save it as array.astype({dtype.name!r})" if dtype.name in NUMBER_TYPES else None
            expected = f"little-endian numbers: {', '.join(NUMBER_TYPES)}"
            raise FormatError(
                "the dtype has no type here", path=file.name, expected=expected, found=dtype, remedy=remedy
            )
        try:
            kind = Type.parse(str(type_of_dtype(dtype, tuple(shape[1:]))))
        except SpecError as error:
            raise FormatError(error.what, path=file.name) from error
        row_bytes = math.prod(shape[1:]) * dtype.itemsize
        if shape[0] and not row_bytes:
            raise FormatError("the rows of an array have no bytes", path=file.name, found=f"the shape {tuple(shape)}")
        return cls(kind, row_bytes, first, row_bytes, shape[0])

    def count_in(self, file: StoredFile) -> int:
        """Return the number of records: if the file is too short, the whole rows and one more, which is cut."""
        if not self.step:
            return self.count
        whole = max(0, (file.size - self.first - self.row_bytes) // self.step + 1)
        return min(self.count, whole + 1)


class RowsReader(Reader):
    """Files whose records are rows of a fixed size.

    Args:
        fields: For each file, field to rows; all files have the same fields and types, and all fields of a file have as
            many rows.
    """

    def __init__(self, files: Sequence[StoredFile], fields: Sequence[Mapping[str, FixedRows]]) -> None:
        self.files: Sequence[StoredFile] = list(files)
        types = [(file.name, types_of(of_file)) for file, of_file in zip(files, fields, strict=True)]
        self._types = types_known_in(types[0][1], types) if types else {}
        self.spec: Spec | None = Spec(self._types)
        counts = [
            min((rows.count_in(file) for rows in of_file.values()), default=0)
            for file, of_file in zip(files, fields, strict=True)
        ]
        self._counts = np.array(counts, np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        self._firsts: list[int] = self._starts.tolist()
        self._places = {
            name: np.array([(of_file[name].first, of_file[name].step) for of_file in fields], np.int64)
            for name in self._types
        }
        self._row_bytes = {name: rows.row_bytes for name, rows in (fields[0] if fields else {}).items()}

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        file = file_of(self._starts, indices)
        local = indices - self._starts[file]
        return {name: Located(self._extents(name, file, local)) for name in fields}

    def range_of(self, field: str, first: int, n: int) -> tuple[int, int, int] | None:
        file = bisect_right(self._firsts, first) - 1
        if not 0 <= file < len(self.files) or first + n > self._firsts[file + 1]:
            return None
        begin, step = self._places[field][file].tolist()
        is_range = step == self._row_bytes[field]
        return (file, begin + (first - self._firsts[file]) * step, n * step) if is_range else None

    def digest(self, update: Callable[[bytes], None]) -> None:
        steps = {name: places[:, 1].tolist() for name, places in self._places.items()}
        update(repr((self._counts.tolist(), self._row_bytes, steps)).encode())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if rows of the stored dtype can be read as that: numbers may have any dims."""
        return number_type_for(field, self._types[field], declared)

    def _extents(self, name: str, file: NDArray[np.int32], local: NDArray[np.int64]) -> Extents:
        places = self._places[name][file]
        offset = places[:, 0] + local * places[:, 1]
        return Extents(file, offset, np.full(len(local), self._row_bytes[name], np.int64))


def types_of(fields: Mapping[str, FixedRows]) -> dict[str, Type]:
    """Return the types of the fields of a file."""
    return {name: rows.type for name, rows in fields.items()}


def number_type_for(field: str, stored: Type, declared: Type) -> Type:
    """Return the declared type of a field, if its stored numbers can be read as that: any dims, or bytes.

    Stored bytes can be read by any codec, and as any numbers; bytes of an opaque type only as integers.

    Raises:
        SpecError: They cannot.
    """
    is_read = (
        declared.codec == stored.codec
        or can_read_bits(stored, declared)
        or (stored == Type("bytes") and (not declared.dims or declared.codec in NUMBER_TYPES))
        or (stored.codec in ML_TYPES and declared.dtype is not None and declared.dtype.kind in "iu")
    )
    if declared == Type("bytes") or (is_read and not declared.optional):
        return declared
    what = "a type of one blob a record" if stored == Type("bytes") else f"{stored.codec} with any dims, or bytes"
    remedy = Remedy("Pass {spec}.", spec={field: str(stored)})
    raise SpecError(f"expected {what}, found {declared}", field=field, remedy=remedy)
