"""Stored features to the columns of a spec, and the errors of those that do not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from dataformats.batch import Column, Nullable, Ragged, take_column
from dataformats.codecs.features.feature import FEATURE
from dataformats.codecs.features.list_kinds import (
    BYTES,
    DOUBLES,
    FLOATS,
    INT32S,
    INTEGERS,
    KIND_DTYPES,
    KIND_TYPES,
    MISSING,
)
from dataformats.codecs.features.missing_field_error import MissingFieldError
from dataformats.codecs.features.stored_feature import FeatureColumn
from dataformats.columns.codec_resolver import holds_numbers
from dataformats.columns.field_decoder import decode_part, renumber_errors
from dataformats.columns.masks import check_part, elements_of, insert_missing
from dataformats.columns.numbers import NumberColumn, offsets_of
from dataformats.errors import CodecError, Remedy, SpecError
from dataformats.interfaces import FieldCodecs, SequenceCodec
from dataformats.spec import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LISTS = {
    MISSING: "no kind of",
    BYTES: "bytes",
    FLOATS: "float",
    INTEGERS: "int64",
    DOUBLES: "double",
    INT32S: "int32",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The column that features become.

    Attributes:
        name: The field's name, for errors.
        kind: The type of one feature.
        in_steps: True if the features are the steps of feature lists, so that the field's type is a sequence of `kind`.
    """

    name: str
    kind: Type
    in_steps: bool = False

    @property
    def sequence(self) -> bool:
        """True if a feature holds any number of elements."""
        return self.kind.dims[:1] == (None,)

    @property
    def inner(self) -> tuple[int, ...]:
        """The dims of one element."""
        return cast("tuple[int, ...]", self.kind.dims[1:] if self.sequence else self.kind.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a number type."""
        return cast("np.dtype[Any]", self.kind.dtype)


def raise_misfit(
    target: Target, row: int, found: str, codec: str, dims: str, *, sentence: str = "Pass {spec}."
) -> NoReturn:
    """Raise the error of a feature that does not fit, with a type that would.

    Args:
        target: The field.
        row: The feature's row.
        found: The content of the feature.
        codec: The element of a type that would fit.
        dims: The dims of that type, and `?`.
        sentence: The remedy, which names `spec`.

    Raises:
        SpecError: Always.
    """
    steps = "[]" if target.in_steps else ""
    declared = Type(target.kind.codec, target.kind.args, (None,) * target.in_steps + target.kind.dims)
    if codec != target.kind.codec and {codec, target.kind.codec} <= set(KIND_TYPES.values()):
        optional = "?" if target.kind.optional else ""
        sentence = f"Pass {{spec}}, or '{FEATURE.name}{steps}{optional}' if records differ in their types."
    remedy = Remedy(sentence, spec={target.name: f"{codec}{steps}{dims}"})
    raise SpecError(f"expected {declared}, found {found}", field=target.name, index=row, remedy=remedy)


def to_column(codecs: FieldCodecs, target: Target, stored: FeatureColumn, part: range | None = None) -> Column:
    """Return the column of a field.

    A number type is decoded from a list of numbers (integers in range, floats that need no rounding) or from
    little-endian bytes. All values must fit exactly.

    Args:
        codecs: Resolves the field's codec.
        target: The field.
        stored: Its features, one a record.
        part: The elements to take along the first dimension; `None`: all.

    Raises:
        SpecError: A record does not fit the type; `index` is its row among those given.
        CodecError: A value does not decode.
        IndexError: `part` goes past the elements of a record.
    """
    if stored.complete:
        column = _present_column(codecs, target, stored, part)
        if not target.kind.optional or isinstance(column, Ragged | Nullable):
            return column
        return Nullable(column, np.ones(len(stored), np.bool_))
    present = stored.kinds > MISSING
    if not target.kind.optional and not target.sequence:
        what = f"expected {target.kind}, found nothing"
        raise MissingFieldError(what, field=target.name, index=int(present.argmin()))
    if part is not None:
        check_part(part, np.where(present, np.iinfo(np.int64).max, 0), target.name)
    rows = np.flatnonzero(present)
    with renumber_errors(rows):
        column = _present_column(codecs, target, stored.take(rows), part)
    return insert_missing(column, present, optional=target.kind.optional)


def _present_column(codecs: FieldCodecs, target: Target, stored: FeatureColumn, part: range | None) -> Column:
    if holds_numbers(codecs, target.kind):
        column: Column = _numbers(target, stored)
    elif codecs.codec(target.kind.element) is FEATURE:
        column = stored.values()
    else:
        return _decoded(codecs, target, stored, part)
    return column if part is None else elements_of(column, part, target.name)


def _decoded(codecs: FieldCodecs, target: Target, stored: FeatureColumn, part: range | None) -> Column:
    """Return the column of a codec whose blobs are bytes values. Only the elements of `part` are decoded."""
    kind = target.kind
    _check_codes(target, stored)
    size = math.prod(cast("tuple[int, ...]", kind.dims[1:]))
    _check_counts(target, BYTES, stored, size, kind.dims[0] if kind.dims else 1)
    if part is None:
        return codecs.decode(kind, stored.blobs(), stored.counts if kind.dims else None, field=target.name)
    blobs = stored.blobs()
    if not kind.dims:
        codec = codecs.codec(kind.element)
        if isinstance(codec, SequenceCodec):
            return decode_part(codec, blobs, None, part, target.name)
        return elements_of(codecs.decode(kind, blobs, field=target.name), part, target.name)
    values = Ragged(np.arange(len(blobs)), offsets_of(stored.counts))
    picked = cast("Ragged", elements_of(values, part, target.name, size))
    free = Type(kind.codec, kind.args, (None, *kind.dims[1:]))
    blobs = blobs.take(cast("NDArray[np.int64]", picked.values))
    return codecs.decode(free, blobs, picked.lengths, field=target.name)


# ---- numbers


def _numbers(target: Target, stored: FeatureColumn) -> NDArray[Any] | Ragged:
    """Return ndarray (B, ...), or a Ragged over (sum, ...)."""
    codes = [code for code in KIND_TYPES if stored.holds(code)] or [BYTES]
    if len(codes) == 1:
        return _numbers_of_code(target, codes[0], stored)
    groups = [np.flatnonzero(stored.kinds == code) for code in codes]
    columns = []
    for code, rows in zip(codes, groups, strict=True):
        with renumber_errors(rows):
            columns.append(_numbers_of_code(target, code, stored.take(rows)))
    order = np.argsort(np.concatenate(groups))
    return cast("NDArray[Any] | Ragged", take_column(_concatenated(columns), order))


def _concatenated(columns: list[Any]) -> Any:
    if isinstance(columns[0], Ragged):
        values = np.concatenate([column.values for column in columns])
        return Ragged(values, offsets_of(np.concatenate([column.lengths for column in columns])))
    return np.concatenate(columns)


def _numbers_of_code(target: Target, code: int, stored: FeatureColumn) -> NDArray[Any] | Ragged:
    """Return the column of features that are all of one kind."""
    if code == BYTES:
        return _from_bytes(target, stored)
    size = math.prod(target.inner)
    _check_counts(target, code, stored, size, None if target.sequence else 1)
    values = _converted(target, stored.numbers(code), code, stored.counts)
    if not target.sequence:
        return values.reshape(len(stored), *target.inner)
    return Ragged(values.reshape(len(values) // size, *target.inner), offsets_of(stored.counts) // size)


def _from_bytes(target: Target, stored: FeatureColumn) -> NDArray[Any] | Ragged:
    if not target.sequence:
        _check_counts(target, BYTES, stored, 1, 1)
    try:
        return NumberColumn(target.kind).column(stored.blobs(), stored.counts, target.name)
    except CodecError as error:
        found = f"one bytes value: {error.what}" if not target.sequence else f"bytes values: {error.what}"
        raise_misfit(target, error.index or 0, found, "bytes", "[]" if target.sequence else "")


def _converted(target: Target, values: NDArray[Any], code: int, counts: NDArray[np.int64]) -> NDArray[Any]:
    """Return stored numbers in the dtype of the type, each exactly equal."""
    dtype = target.dtype
    if values.dtype == dtype or not len(values):
        return values.astype(dtype, copy=False)
    if dtype.kind != "f" and KIND_DTYPES[code].kind == "f":
        row = int((counts > 0).argmax())
        raise_misfit(target, row, f"{_LISTS[code]} values", KIND_TYPES[code], _dims_text(target))
    if dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            converted = values.astype(dtype)
            wrong = (converted.astype(values.dtype) != values) & ~np.isnan(values)
        if values.dtype.kind == "i":
            wrong |= converted >= 2.0**63  # the cast back is undefined
    else:
        lowest, highest = _limits(dtype)
        converted = values.astype(dtype)
        wrong = (values < lowest) | (values > highest)
    if wrong.any():
        at = int(wrong.argmax())
        row = int(np.searchsorted(np.cumsum(counts), at, side="right"))
        raise_misfit(target, row, f"{values[at]!s}", KIND_TYPES[code], _dims_text(target))
    return converted


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), min(int(limits.max), 2**63 - 1)


# ---- checks


def _check_codes(target: Target, stored: FeatureColumn) -> None:
    if not any(stored.holds(code) for code in KIND_DTYPES):
        return
    wrong = np.flatnonzero((stored.kinds != BYTES) & (stored.counts > 0))
    if len(wrong):
        code = int(stored.kinds[wrong[0]])
        raise_misfit(target, int(wrong[0]), f"{_LISTS[code]} values", KIND_TYPES[code], _dims_text(target))


def _check_counts(target: Target, code: int, stored: FeatureColumn, size: int, first: int | None) -> None:
    if size == 1 if first is None else stored.fewest == stored.most == first * size:
        return
    wrong = np.flatnonzero(stored.counts % size if first is None else stored.counts != first * size)
    if len(wrong):
        row = int(wrong[0])
        raise_misfit(target, row, f"{int(stored.counts[row])} {_LISTS[code]} values", KIND_TYPES[code], "[]")


def _dims_text(target: Target) -> str:
    return str(Type("x", dims=target.kind.dims))[1:] + ("?" if target.kind.optional else "")
