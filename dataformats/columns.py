"""From blobs to columns: numbers here, everything else by its codec."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dataformats.batch import Blobs, Column, Nullable, Ragged, StackedList, take_column
from dataformats.errors import CodecError, MissingExtraError, SpecError
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.spec import Type
from dataformats.values import DTYPES, exact
from dataformats.windows import Around

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NumberCodec",
    "check_dims",
    "check_part",
    "conform",
    "decode_around",
    "decode_column",
    "elements_of",
    "numbered",
    "numbers_of",
    "offsets_of",
    "spread",
    "words",
]


class NumberCodec(Codec):
    """One number as its little-endian bytes; shapes are dealt with in `decode_column` and `encode_value`.

    Args:
        name: One of `NUMBER_TYPES`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._kind = Type(name)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a number, which must fit by the rules of `exact`."""
        return exact(self._kind, value).tobytes()

    def decode(self, blob: bytes) -> Any:
        """Return the number as a numpy scalar."""
        return numbers_of(self._kind, Blobs.join([blob]))[0]

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return an ndarray (B,) of the dtype."""
        return numbers_of(self._kind, blobs)


def decode_column(
    codecs: FieldCodecs,
    kind: Type,
    blobs: Blobs,
    counts: NDArray[np.int64] | None = None,
    *,
    field: str | None = None,
) -> Column:
    """Return the column of a field stored as blobs; `kind.optional` is the caller's matter (`spread`).

    Args:
        codecs: Where the element's codec comes from.
        kind: The field's type. Numbers are one blob a record, or, where dims start with `[]` and counts are
            given, any number of blobs of whole elements. Other codecs with dims have one blob an element.
        blobs: All blobs, record after record.
        counts: int64[n], blobs of each record; `None`: one each.
        field: The field's name, for errors.

    Returns:
        Numbers: ndarray `(n, ...)`, or a `Ragged` over `(sum, ...)`. Others: what the codec's `decode_batch`
        gives, in a `Ragged` for each of the dims.

    Raises:
        CodecError: A blob does not decode, or there are too few or too many; `index` is the position of the
            record among those given.
        SpecError: The dims have `[]` elsewhere than at their beginning.
        UnknownNameError: The codec is unknown, or may not be named by a file.
    """
    codec = codecs.codec(kind.element)
    if isinstance(codec, NumberCodec):
        check_dims(kind, field)
        return numbers_of(kind, blobs, counts, field=field)
    if not kind.dims and counts is None:
        return _decode_elements(codec, blobs, None, field)
    check_dims(kind, field)
    if not kind.dims:
        _check_counts(kind, counts, field)
        return _decode_elements(codec, blobs, None, field)
    if counts is None:
        counts = np.ones(len(blobs), np.int64)
    per_element = _check_counts(kind, counts, field)
    values: Any = _decode_elements(codec, blobs, counts, field)
    n_values = len(blobs)
    for size in reversed(kind.dims[1:]):
        n_values //= cast(int, size)
        values = Ragged(values, np.arange(n_values + 1, dtype=np.int64) * cast(int, size))
    return Ragged(values, offsets_of(counts // per_element))


def numbers_of(
    kind: Type, blobs: Blobs, counts: NDArray[np.int64] | None = None, *, field: str | None = None
) -> NDArray[Any] | Ragged:
    """Return numbers stored as little-endian bytes in C order: `decode_column` for number types.

    Raises:
        CodecError: A blob has the wrong length, or a bool is neither 0 nor 1.
    """
    sequence = kind.dims[:1] == (None,)
    inner = cast("tuple[int, ...]", kind.dims[1:] if sequence else kind.dims)
    dtype: np.dtype[Any] = DTYPES[kind.codec]
    width = dtype.itemsize * math.prod(inner)
    _check_widths(kind, blobs, width, counts, field)
    if not sequence:
        _check_counts(kind.element, counts, field)
    values, ends = blobs.contiguous()
    if dtype.kind == "b":
        _check_bools(values, ends, counts, field)
    elements = values.view(dtype).reshape(int(ends[-1]) // width if width else len(blobs), *inner)
    if not sequence:
        return elements
    record_ends = ends if counts is None else ends[offsets_of(counts)]
    return Ragged(elements, record_ends // width)


def spread(column: Column, present: NDArray[np.bool_], *, optional: bool) -> Column:
    """Return the column of all records, made of the column of those that have the field.

    Args:
        column: One row for each True in `present`, in order.
        present: bool[B].
        optional: The type has a `?`.

    Returns:
        A `Ragged` with empty items where the field is missing, and `present` unless nothing is; any other
        column as `Nullable` where `optional`, else as it is.
    """
    if isinstance(column, Ragged):
        if present.all():
            return column
        lengths = np.zeros(len(present), np.int64)
        lengths[present] = column.lengths
        return Ragged(column.values, offsets_of(lengths) + column.offsets[0], column.item, present)
    if not optional or isinstance(column, Nullable):
        return column
    if isinstance(column, list):
        rows = iter(column)
        return Nullable([next(rows) if there else None for there in present.tolist()], present)
    dense = np.zeros((len(present), *column.shape[1:]), column.dtype)
    dense[present] = column
    return Nullable(dense, present)


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[n+1]: 0, then the sums of the lengths so far."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@contextmanager
def numbered(owners: NDArray[np.int64] | Sequence[int]) -> Iterator[None]:
    """Rename the index of a `SpecError` or `CodecError` raised inside: position i becomes `owners[i]`."""
    try:
        yield
    except CodecError as error:
        if error.index is None:
            raise
        index = int(owners[error.index])
        raise CodecError(
            error.what, codec=error.codec, field=error.field, index=index, path=error.path
        ) from error.__cause__
    except SpecError as error:
        if error.index is None:
            raise
        raise error.at(int(owners[error.index])) from error.__cause__


def _check_widths(kind: Type, blobs: Blobs, width: int, counts: NDArray[np.int64] | None, field: str | None) -> None:
    sequence = kind.dims[:1] == (None,)
    unfit = blobs.lengths % width != 0 if sequence else blobs.lengths != width
    if unfit.any():
        wrong = np.flatnonzero(unfit)
        expected = f"a multiple of {width}" if sequence else str(width)
        raise CodecError(
            f"expected {expected} bytes for {kind.required}, found {int(blobs.lengths[wrong[0]])}",
            codec=kind.codec,
            field=field,
            index=_record_of(int(wrong[0]), counts),
        )


def _check_counts(kind: Type, counts: NDArray[np.int64] | None, field: str | None) -> int:
    """Return the blobs of one element along the first dimension."""
    per_element = math.prod(cast("tuple[int, ...]", kind.dims[1:]))
    if per_element == 0:
        raise SpecError(f"{str(kind)!r} has elements of size 0, whose number nothing stores", field=field)
    if counts is None:
        return per_element
    first = kind.dims[0] if kind.dims else 1
    wrong = counts % per_element if first is None else counts != first * per_element
    for index in np.flatnonzero(wrong)[:1].tolist():
        expected = f"a multiple of {per_element}" if first is None else str(first * per_element)
        raise CodecError(
            f"expected {expected} blobs for {kind.required}, found {int(counts[index])}",
            codec=kind.codec,
            field=field,
            index=index,
        )
    return per_element


def _check_bools(
    values: NDArray[np.uint8], ends: NDArray[np.int64], counts: NDArray[np.int64] | None, field: str | None
) -> None:
    wrong = np.flatnonzero(values > 1)
    if len(wrong):
        blob = int(np.searchsorted(ends, wrong[0], side="right")) - 1
        raise CodecError(
            f"expected 0 or 1, found {int(values[wrong[0]])}",
            codec="bool",
            field=field,
            index=_record_of(blob, counts),
        )


def _record_of(blob: int, counts: NDArray[np.int64] | None) -> int:
    return blob if counts is None else int(np.searchsorted(np.cumsum(counts), blob, side="right"))


def _decode_elements(codec: Codec, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None) -> Column:
    try:
        column = codec.decode_batch(blobs)
    except (MemoryError, MissingExtraError):
        raise  # the machine or the installation is to blame, not a record
    except Exception as error:
        culprit, cause = _first_failure(codec, blobs)
        raise CodecError(
            words(cause or error),
            codec=codec.name,
            field=field,
            index=None if culprit is None else _record_of(culprit, counts),
        ) from (cause or error)
    if len(column) != len(blobs):
        raise CodecError(
            f"decode_batch gave {len(column)} values for {len(blobs)} blobs", codec=codec.name, field=field
        )
    return column


def decode_around(codec: Codec, around: Around) -> Column | None:
    """Return the column of blobs whose window was read apart; `None` where only the whole blobs can tell."""
    try:
        column = codec.decode_around(around)
    except (MemoryError, MissingExtraError):
        raise
    except Exception:
        return None  # what is wrong with the data, decoding them whole says again, and of which record
    return column if column is not None and len(column) == len(around) else None


def _first_failure(codec: Codec, blobs: Blobs) -> tuple[int | None, Exception | None]:
    for position, blob in enumerate(blobs):
        try:
            codec.decode(blob)
        except MemoryError:
            raise
        except Exception as error:
            return position, error
    return None, None


def check_dims(kind: Type, field: str | None) -> None:
    """Raise where values of a type cannot be stored as blobs.

    Raises:
        SpecError: `[]` stands elsewhere than first, or elements have size 0.
    """
    if None in kind.dims[1:]:
        raise SpecError(f"{str(kind)!r} cannot be stored as blobs: [] may stand only first", field=field)
    if kind.dims[:1] == (None,) and 0 in kind.dims:
        raise SpecError(f"{str(kind)!r} has elements of size 0, whose number nothing stores", field=field)


def words(error: Exception) -> str:
    """Return what an error says, for a message that chains it."""
    if isinstance(error, CodecError | SpecError):
        return error.what
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def elements_of(column: Any, part: range, name: str, size: int = 1) -> Column:
    """Return the elements `part` along the first dimension of every record.

    Args:
        column: A `Ragged`, a list of sequences, or an ndarray (B, n, ...).
        part: The elements.
        name: The field's name, for errors.
        size: Values of one element.

    Raises:
        IndexError: A record has too few elements.
        SpecError: The column has no elements.
    """
    if isinstance(column, Ragged):
        check_part(part, column.lengths // size, name)
        picked = (np.arange(size) + size * np.asarray(part, np.int64)[:, None]).reshape(-1)
        inner = (column.offsets[:-1, None] + picked).reshape(-1)
        offsets = np.arange(len(column) + 1, dtype=np.int64) * len(picked)
        return Ragged(take_column(column.values, inner), offsets, column.item)
    if isinstance(column, list):
        check_part(part, np.array([len(value) for value in column], np.int64), name)
        return [_picked(value, part) for value in column]
    if column.ndim < 2:
        raise SpecError(f"a scalar has no elements to take {part} of", field=name)
    check_part(part, np.full(len(column), column.shape[1], np.int64), name)
    return cast("NDArray[Any]", column[:, np.asarray(part, np.int64)])


def _picked(value: Any, part: range) -> Any:
    return [value[at] for at in part] if isinstance(value, list) else value[np.asarray(part, np.int64)]


def check_part(part: range, available: NDArray[np.int64], name: str) -> None:
    """Raise where `part` goes past the elements that are available.

    Args:
        part: The elements asked for.
        available: int64[B], elements of each record.
        name: The field's name.

    Raises:
        IndexError: It does.
    """
    if not len(part) or not len(available):
        return
    fewest = int(available.min())
    if min(part) < 0 or max(part) >= fewest:
        row = int(available.argmin())
        raise IndexError(f"field {name!r}: {part} goes past the {fewest} elements of record {row} of this read")


def conform(column: Any, declared: Type, *, field: str | None = None) -> Column:
    """Return a column of arrays, as the codec `array` gives it, as the column of a number type.

    Args:
        column: A list of arrays; a column that is of numbers already is returned as it is.
        declared: The type that a spec gives the field.
        field: Its name, for errors.

    Raises:
        SpecError: An array has another dtype or shape than declared; `index` is its position.
    """
    if declared.dtype is None or not isinstance(column, list):
        return cast("Column", column)
    stacked = column.stacked if isinstance(column, StackedList) else None
    alike = declared.fixed and stacked is not None and len(stacked)  # then the first one stands for all
    arrays = [np.asarray(value) for value in (column[:1] if alike else column)]
    for position, array in enumerate(arrays):
        fits = array.ndim == len(declared.dims) and all(
            size in (None, there) for size, there in zip(declared.dims, array.shape, strict=True)
        )
        if not fits or array.dtype.newbyteorder("=") != declared.dtype.newbyteorder("="):
            raise SpecError(
                f"expected {declared.required}, found {array.dtype}{list(array.shape)}; pass spec= with what fits",
                field=field,
                index=position,
            )
    if declared.fixed and stacked is not None:
        return np.ascontiguousarray(stacked, declared.dtype)
    if declared.fixed:
        shape = (len(arrays), *cast("tuple[int, ...]", declared.dims))
        return np.stack(arrays).astype(declared.dtype, copy=False) if arrays else np.zeros(shape, declared.dtype)
    inner = cast("tuple[int, ...]", declared.dims[1:])
    values = np.concatenate(arrays) if arrays else np.zeros((0, *inner), declared.dtype)
    return Ragged(values.astype(declared.dtype, copy=False), offsets_of(np.array([len(a) for a in arrays], np.int64)))
