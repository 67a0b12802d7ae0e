"""Convert values to a number type, exactly or not at all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.errors import MissingExtraError, SpecError
from dataformats.spec import NUMBER_TYPES, Type, is_short_float

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Dtypes(dict[str, np.dtype[Any]]):
    def __missing__(self, name: str) -> np.dtype[Any]:
        dtype = Type(name).dtype
        if dtype is None:
            raise KeyError(name)
        if dtype.name != name:
            raise MissingExtraError(f"the type {name}", package="ml_dtypes")
        self[name] = dtype
        return dtype


DTYPES: dict[str, np.dtype[Any]] = _Dtypes(
    {
        name: np.dtype("?" if name == "bool" else name).newbyteorder("<")
        for name in NUMBER_TYPES
        if name == "bool" or hasattr(np, name)
    }
)
"""The dtypes of this platform: not every one has `float128`. A look-up of one of `ML_TYPES` imports ml_dtypes."""


def to_exact_array(type_: Type, value: Any, *, field: str | None = None) -> NDArray[Any]:
    """Return a value as the array of its type: little-endian, C order, the dims' shape.

    Floats are rounded to the type's precision, but a finite one not to infinity. Integers must fit the range
    of an integer type, and be exact in a float type. A bool type takes only bools, not the integers 0 and 1, and
    no other type takes bools. Nothing else is cast or broadcast; big-endian arrays are swapped.

    Args:
        type_: A number type; each `[]` of its dims takes any length.
        value: A number, an array, or nested sequences of numbers.
        field: The field's name, for errors.

    Raises:
        SpecError: The value does not fit, with the reason.
    """
    declared: np.dtype[Any] = DTYPES[type_.codec]
    if type(value) is np.ndarray and value.shape == type_.dims and value.dtype == declared and value.flags.c_contiguous:
        return value  # the common case
    array = _as_array(type_, value, field)
    if array.ndim != len(type_.dims) or any(
        want not in (None, size) for want, size in zip(type_.dims, array.shape, strict=True)
    ):
        raise _misfit(type_, f"an array of shape {array.shape}", field)
    return np.asarray(cast_numbers(type_, array, field=field), order="C")


def cast_numbers(type_: Type, array: NDArray[Any], *, field: str | None = None) -> NDArray[Any]:
    """Return numbers of any shape as the numbers of a type: see `to_exact_array`.

    Raises:
        SpecError: A number does not fit.
    """
    declared: np.dtype[Any] = DTYPES[type_.codec]
    if array.dtype == declared:
        return array
    _check_cast(type_, array, declared, field)
    with np.errstate(over="ignore", under="ignore"):
        rounded = array.astype(declared)
    if declared.kind == "f":
        _check_rounding(type_, array, rounded, field)
    return rounded


def _as_array(type_: Type, value: Any, field: str | None) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise _misfit(type_, "a masked array", field)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise _misfit(type_, f"{type(value).__name__} ({error})", field) from error
    if not hasattr(value, "dtype") and array.size == 0:
        return _empty(type_, array)
    if array.dtype.kind in "fO" and not hasattr(value, "dtype"):
        array = _as_integers(array, value)
    if array.dtype.kind not in "biuf" and not is_short_float(array.dtype):
        found = f"{type(value).__name__} of dtype {array.dtype}"
        raise _misfit(type_, f"one of {value.bit_length()} bits" if isinstance(value, int) else found, field)
    return array


def _empty(type_: Type, array: NDArray[Any]) -> NDArray[Any]:
    # An empty list has no dtype and no inner dimensions.
    inner = type_.dims[1:] if array.shape == (0,) and type_.dims[:1] == (None,) else ()
    return np.empty(array.shape + tuple(size or 0 for size in inner), type_.dtype)


def _as_integers(array: NDArray[Any], value: Any) -> NDArray[Any]:
    # numpy converts [2**63, 1] to float64: integers that mix the ranges of int64 and uint64 would lose digits.
    objects = np.asarray(value, dtype=object)
    if not objects.size or not all(type(item) is int for item in objects.flat):
        return array
    try:
        return objects.astype(np.int64 if min(objects.flat) < 0 else np.uint64)
    except OverflowError:
        return objects


def _check_cast(type_: Type, array: NDArray[Any], declared: np.dtype[Any], field: str | None) -> None:
    source = array.dtype.kind  # "V": NumPy takes most of `ML_TYPES` for void
    if (source == "b") != (declared.kind == "b") or (source in "fV" and declared.kind in "iu"):
        raise _misfit(type_, f"{array.dtype}; convert it first, nothing is cast", field)
    if declared.kind in "iu" and array.size:
        limits = np.iinfo(declared)
        lowest, highest = int(array.min()), int(array.max())
        if lowest < limits.min or highest > limits.max:
            raise _misfit(type_, f"{lowest if lowest < limits.min else highest}, which is out of range", field)


def _check_rounding(type_: Type, array: NDArray[Any], rounded: NDArray[Any], field: str | None) -> None:
    if array.dtype.kind in "fV":
        lost = np.isinf(rounded) & np.isfinite(array)
        why = "which would become infinite"
    else:
        lost = _inexact(array, rounded)
        why = "an integer that this type does not hold exactly"
    if lost.any():
        raise _misfit(type_, f"{array[lost].flat[0]}, {why}", field)


def _inexact(integers: NDArray[Any], rounded: NDArray[Any]) -> NDArray[np.bool_]:
    # Integers within the mantissa are exact; the others are compared as Python integers.
    bound = 2 ** (np.finfo(rounded.dtype).nmant + 1)
    far = (integers > bound) | (integers < -bound) if integers.dtype.kind == "i" else integers > bound
    lost = np.zeros(integers.shape, np.bool_)
    lost[far] = [
        not math.isfinite(there) or int(there) != here
        for here, there in zip(integers[far].tolist(), rounded[far].tolist(), strict=True)
    ]
    return lost


def _misfit(type_: Type, found: str, field: str | None) -> SpecError:
    return SpecError(f"expected {type_}, found {found}", field=field)
