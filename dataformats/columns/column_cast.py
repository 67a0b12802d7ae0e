"""Cast columns of numbers to other types, exactly or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np

from dataformats.batch import Column, Nullable, Ragged
from dataformats.columns.exact_cast import cast_numbers, to_exact_array
from dataformats.columns.numbers import offsets_of
from dataformats.errors import SpecError
from dataformats.spec import ML_TYPES, Type

_KNOWN = ("bytes", "utf8", "json", "msgpack", "array")  # the types of a table besides numbers and opaque ones


def can_cast(stored: Type, type_: Type) -> bool:
    """Return True if some stored values can be cast to another type of numbers.

    Integers become wider or narrower integers, or floats, floats become other floats, lists of numbers become arrays of
    a fixed shape, and lists in JSON documents become arrays. Each value must fit: see `to_exact_array`.
    Short floats, `ML_TYPES`, become only float32 and float64.

    Example:
        >>> from dataformats import Type
        >>> from dataformats.columns.column_cast import can_cast
        >>> can_cast(Type("int32"), Type("int64")), can_cast(Type("float32"), Type("int64"))
        (True, False)
    """
    if type_.dtype is None or (stored.element, stored.dims) == (type_.element, type_.dims):
        return False
    if stored.dtype is None:
        return stored.codec == "json" and not stored.dims and bool(type_.dims)
    has_dims = stored.dims == type_.dims or (stored.dims == (None,) and len(type_.dims) == 1)
    if stored.codec in ML_TYPES or type_.codec in ML_TYPES:
        return has_dims and stored.codec in ML_TYPES and type_.codec in ("float32", "float64")
    kinds = (stored.dtype.kind, type_.dtype.kind)
    is_known = kinds in (("i", "f"), ("u", "f"), ("f", "f"), ("b", "b")) or {*kinds} <= {*"iu"}
    return is_known and has_dims


def can_read_bits(stored: Type, type_: Type) -> bool:
    """Return True if values of an opaque type can be read as a type: by a codec, or as integers of as many bytes.

    Their bits would be wrong as other numbers. NumPy stores arrays of ml_dtypes as void, so these can be read as short
    floats of as many bytes.

    Example:
        >>> from dataformats import Type
        >>> from dataformats.columns.column_cast import can_read_bits
        >>> can_read_bits(Type("BF16"), Type("uint16")), can_read_bits(Type("BF16"), Type("float16"))
        (True, False)
    """
    if stored.dtype is not None or stored.dims or stored.codec in _KNOWN:
        return False
    if type_.codec in ML_TYPES:
        return stored.codec == f"void{8 * ML_TYPES[type_.codec]}"
    return not type_.dims if type_.dtype is None else type_.dtype.kind in "iu"


def cast_column(column: Column, type_: Type, field: str) -> Column:
    """Return a column without missing values under another type: see `can_cast`.

    Raises:
        SpecError: A value does not fit the type.
    """
    kind = type_.required
    if isinstance(column, np.ndarray):
        return cast_elements(column, kind, field)
    if isinstance(column, Ragged):
        cast = cast_elements(column, kind, field)
        if kind.dims == (None,):
            return cast
        values = np.asarray(cast.values)
        wrong = np.flatnonzero(column.lengths != kind.dims[0])
        if len(wrong):
            raise SpecError(f"expected {type_}, found {column.lengths[wrong[0]]} values", field=field)
        first, last = (int(column.offsets[place]) for place in (0, -1))
        return values[first:last].reshape(len(column), *kind.dims)
    documents: Any = column
    arrays = [to_exact_array(kind, value, field=field) for value in documents]
    if kind.fixed:
        return np.stack(arrays) if arrays else np.empty((0, *kind.dims), kind.dtype)
    inner = [size or 0 for size in kind.dims[1:]]
    return Ragged(
        np.concatenate([np.empty((0, *inner), kind.dtype), *arrays]),
        offsets_of(np.array([*map(len, arrays)], np.int64)),
    )


@overload
def cast_elements(column: Ragged, type_: Type, field: str) -> Ragged: ...


@overload
def cast_elements(column: Column, type_: Type, field: str) -> Column: ...


def cast_elements(column: Column, type_: Type, field: str) -> Column:
    """Return a column of numbers with the numbers of another type, of the same shape; missing values stay missing.

    Raises:
        SpecError: A number does not fit the type.
    """
    if isinstance(column, Nullable | Ragged):
        return replace(column, values=cast_numbers(type_, np.asarray(column.values), field=field))
    return cast_numbers(type_, np.asarray(column), field=field)
