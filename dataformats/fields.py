"""Between the values of a field and the blobs that hold them: numbers here, everything else by its codec."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dataformats.batch import Blobs, Column, Nullable, Ragged
from dataformats.errors import CodecError, SpecError, UnknownNameError
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.registry import codecs as registered
from dataformats.spec import NUMBER_TYPES, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CodecLike",
    "Codecs",
    "FunctionCodec",
    "NumberCodec",
    "decode_column",
    "encode_value",
    "exact",
    "holds_numbers",
    "numbered",
    "numbers_of",
    "offsets_of",
    "register_codec",
    "spread",
]

CodecLike = Codec | tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""What a call may name as a codec: an object, or (encode, decode)."""

_REMEDY = "pass codecs={%r: (encode, decode)}"


# ---- codecs by name


@dataclass(frozen=True)
class FunctionCodec(Codec):
    """A codec made of functions.

    Attributes:
        name: As in a spec.
        encoder: Value to bytes.
        decoder: Bytes to value.
        batch_decoder: `Blobs` to a column, or `None`: one by one.
        safe: True where decoding runs no code from the data.
    """

    name: str
    encoder: Callable[[Any], bytes]
    decoder: Callable[[bytes], Any]
    batch_decoder: Callable[[Blobs], Column] | None = None
    safe: bool = False

    def encode(self, value: Any) -> bytes:
        """Return what the function makes of `value`."""
        return self.encoder(value)

    def decode(self, blob: bytes) -> Any:
        """Return what the function makes of `blob`."""
        return self.decoder(blob)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return what the batch function makes of `blobs`; without one, a list."""
        return super().decode_batch(blobs) if self.batch_decoder is None else self.batch_decoder(blobs)


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


_NUMBERS = {name: NumberCodec(name) for name in NUMBER_TYPES}
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in NUMBER_TYPES}
_registered_safe: dict[str, Codec] = {}


def register_codec(
    name: str,
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    *,
    decode_batch: Callable[[Blobs], Column] | None = None,
    safe: bool = False,
    replace: bool = False,
) -> None:
    """Register a pair of functions as the codec `name`.

    Args:
        name: As it will stand in specs.
        encode: Value to bytes.
        decode: Bytes to value; must not read outside them.
        decode_batch: `Blobs` to a column, where that is faster than one by one.
        safe: True lets names found in files resolve to it: decoding must run no code from the data.
        replace: Take the name from whatever has it.

    Raises:
        ValueError: Something else has the name, and `replace` is not given; or the name is a number's.
    """
    if name in NUMBER_TYPES:
        raise ValueError(f"{name!r} is a number type; choose another name, or pass codecs= to a call")
    codec = FunctionCodec(name, encode, decode, decode_batch, safe)
    if name in registered and not registered.shipped(name) and registered.get(name) == codec:
        return
    registered.register(name, codec, replace=replace)
    _registered_safe.pop(name, None)
    if safe:
        _registered_safe[name] = codec


class Codecs:
    r"""The codecs of one call: what it names wins, then numbers, then the registry.

    Thread-safe. Pickles if the overrides do.

    Args:
        overrides: Name, or a whole element type as `"int(8)"`, to a codec or a pair (encode, decode).
        trusted: True where the types were named by the call; False where a file named them: then only codecs
            resolve that are safe and shipped here, or were registered with `safe=True`.

    Example:
        >>> import numpy as np
        >>> from dataformats import Type
        >>> from dataformats.batch import Blobs
        >>> from dataformats.fields import Codecs
        >>> codecs = Codecs({"upper": (str.encode, lambda blob: blob.decode().upper())}, trusted=False)
        >>> codecs.decode(Type.parse("upper"), Blobs.join([b"a", b"b"]))
        ['A', 'B']
        >>> codecs.encode(Type.parse("float32[2]"), [1, 0.5])
        [b'\x00\x00\x80?\x00\x00\x00?']
    """

    def __init__(self, overrides: Mapping[str, CodecLike] | None = None, *, trusted: bool) -> None:
        self.trusted = trusted
        self.overrides = {name: _as_codec(name, codec) for name, codec in (overrides or {}).items()}
        self._found: dict[Type, Codec] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.overrides, self.trusted)

    def codec(self, element: Type) -> Codec:
        """Return the codec of an element type, configured with its arguments; dims and `?` are ignored.

        Raises:
            UnknownNameError: Nothing is registered as that, or what is may not be named by a file.
            SpecError: The codec does not take these arguments.
        """
        found = self._found.get(element)
        if found is None:
            found = self._found[element] = self._resolve(element.element)
        return found

    def decode(
        self,
        kind: Type,
        blobs: Blobs,
        counts: NDArray[np.int64] | None = None,
        *,
        field: str | None = None,
    ) -> Column:
        """Return the column of a field stored as blobs: see `decode_column`."""
        return decode_column(self, kind, blobs, counts, field=field)

    def encode(self, kind: Type, value: Any, *, field: str | None = None) -> list[bytes]:
        """Return the blobs of a value: see `encode_value`."""
        return encode_value(self, kind, value, field=field)

    def _resolve(self, element: Type) -> Codec:
        if str(element) in self.overrides:
            return self.overrides[str(element)]
        if element.codec in self.overrides:
            return self.overrides[element.codec].configured(element.args)
        if element.codec in _NUMBERS:
            return _NUMBERS[element.codec].configured(element.args)
        if not self.trusted and not _may_be_named_by_files(element.codec):
            raise UnknownNameError(
                "codec that a file may name",
                name=element.codec,
                known=[name for name in registered if _may_be_named_by_files(name)],
                remedy=_REMEDY % element.codec,
            )
        return _look_up(element.codec).configured(element.args)


def _rebuild(overrides: dict[str, Codec], trusted: bool) -> Codecs:
    return Codecs(overrides, trusted=trusted)


def _as_codec(name: str, codec: CodecLike) -> Codec:
    if isinstance(codec, Codec):
        return codec
    pair: Any = codec
    if isinstance(pair, tuple) and len(pair) == 2 and all(callable(part) for part in pair):
        return FunctionCodec(name, *pair)
    raise SpecError(f"codecs={{{name!r}: ...}} must be a Codec or a pair (encode, decode), found {codec!r}")


def _look_up(name: str) -> Codec:
    try:
        return registered.get(name)
    except UnknownNameError as error:
        raise UnknownNameError("codec", name=name, known=error.known, remedy=_REMEDY % name) from None


def _may_be_named_by_files(name: str) -> bool:
    # A name that a file chose must not even import an entry point: importing is running code.
    if registered.shipped(name):
        return registered.get(name).safe
    return name in _registered_safe and registered.get(name) is _registered_safe[name]


def holds_numbers(codecs: FieldCodecs, kind: Type) -> bool:
    """Return True where the elements of `kind` are numbers, and no override has taken that name."""
    return kind.codec in _NUMBERS and codecs.codec(kind) is _NUMBERS[kind.codec]


# ---- from blobs to columns


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
    _check_dims(kind, field)
    codec = codecs.codec(kind.element)
    if codec is _NUMBERS.get(kind.codec):
        return numbers_of(kind, blobs, counts, field=field)
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
    dtype: np.dtype[Any] = _DTYPES[kind.codec]
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


def _check_dims(kind: Type, field: str | None) -> None:
    if None in kind.dims[1:]:
        raise SpecError(f"{str(kind)!r} cannot be stored as blobs: [] may stand only first", field=field)
    if kind.dims[:1] == (None,) and 0 in kind.dims:
        raise SpecError(f"{str(kind)!r} has elements of size 0, whose number nothing stores", field=field)


def _check_widths(
    kind: Type, blobs: Blobs, width: int, counts: NDArray[np.int64] | None, field: str | None
) -> None:
    sequence = kind.dims[:1] == (None,)
    wrong = np.flatnonzero(blobs.lengths % width if sequence else blobs.lengths != width)
    if len(wrong):
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


def _decode_elements(
    codec: Codec, blobs: Blobs, counts: NDArray[np.int64] | None, field: str | None
) -> Column:
    try:
        column = codec.decode_batch(blobs)
    except Exception as error:
        culprit, cause = _first_failure(codec, blobs)
        raise CodecError(
            _words(cause or error),
            codec=codec.name,
            field=field,
            index=None if culprit is None else _record_of(culprit, counts),
        ) from (cause or error)
    if len(column) != len(blobs):
        raise CodecError(
            f"decode_batch gave {len(column)} values for {len(blobs)} blobs", codec=codec.name, field=field
        )
    return column


def _first_failure(codec: Codec, blobs: Blobs) -> tuple[int | None, Exception | None]:
    for position, blob in enumerate(blobs):
        try:
            codec.decode(blob)
        except Exception as error:
            return position, error
    return None, None


def _words(error: Exception) -> str:
    if isinstance(error, CodecError | SpecError):
        return error.what
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# ---- from values to blobs


def encode_value(codecs: FieldCodecs, kind: Type, value: Any, *, field: str | None = None) -> list[bytes]:
    """Return the blobs of a value: one, or with another codec than a number's and dims, one an element.

    Args:
        codecs: Where the element's codec comes from.
        kind: The field's type.
        value: What to store; `None` where the type has a `?` is no blob at all.
        field: The field's name, for errors.

    Raises:
        SpecError: The value does not fit the type: see `exact` for numbers; a sequence has the dims' sizes.
        CodecError: The codec refuses the value.
    """
    if value is None and kind.optional:
        return []
    _check_dims(kind, field)
    codec = codecs.codec(kind.element)
    if codec is _NUMBERS.get(kind.codec):
        return [exact(kind, value, field=field).tobytes()]
    elements = [value]
    for size in kind.dims:
        elements = [part for element in elements for part in _parts(kind, element, size, field)]
    return [_encode_element(codec, element, field) for element in elements]


def _parts(kind: Type, value: Any, size: int | None, field: str | None) -> list[Any]:
    if isinstance(value, str | bytes | bytearray | Mapping) or not hasattr(value, "__iter__"):
        raise SpecError(f"expected a sequence for {kind}, found {type(value).__name__}", field=field)
    parts = list(value)
    if size is not None and len(parts) != size:
        raise SpecError(f"expected {size} elements for {kind}, found {len(parts)}", field=field)
    return parts


def _encode_element(codec: Codec, value: Any, field: str | None) -> bytes:
    try:
        blob = codec.encode(value)
    except Exception as error:
        raise CodecError(_words(error), codec=codec.name, field=field) from error
    if not isinstance(blob, bytes):
        raise CodecError(f"encode gave {type(blob).__name__}, expected bytes", codec=codec.name, field=field)
    return blob


def exact(kind: Type, value: Any, *, field: str | None = None) -> NDArray[Any]:
    """Return a value as the array of its type: little-endian, C order, the dims' shape.

    Floats are rounded to the type's precision, but a finite one not to infinity. Integers must fit the range
    of an integer type, and be held exactly by a float type. Only bools are bools, and bools are nothing else:
    the integers 0 and 1 are refused. Nothing else is cast, no shape is stretched, big-endian is swapped.

    Args:
        kind: A number type; each `[]` of its dims takes any length.
        value: A number, an array, or nested sequences of numbers.
        field: The field's name, for errors.

    Raises:
        SpecError: The value does not fit, with the reason.
    """
    array = _as_array(kind, value, field)
    if array.ndim != len(kind.dims) or any(
        want not in (None, size) for want, size in zip(kind.dims, array.shape, strict=True)
    ):
        raise _misfit(kind, f"an array of shape {array.shape}", field)
    target: np.dtype[Any] = _DTYPES[kind.codec]
    if array.dtype != target:
        _check_cast(kind, array, target, field)
        with np.errstate(over="ignore", under="ignore"):
            rounded = array.astype(target)
        if target.kind == "f":
            _check_rounding(kind, array, rounded, field)
        array = rounded
    return np.asarray(array, order="C")


def _as_array(kind: Type, value: Any, field: str | None) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise _misfit(kind, "a masked array", field)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise _misfit(kind, f"{type(value).__name__} ({_words(error)})", field) from error
    if not hasattr(value, "dtype") and array.size == 0:
        return _empty(kind, array)
    if array.dtype.kind in "fO" and not hasattr(value, "dtype"):
        array = _as_integers(array, value)
    if array.dtype.kind not in "biuf":
        raise _misfit(kind, f"{type(value).__name__} of dtype {array.dtype}", field)
    return array


def _empty(kind: Type, array: NDArray[Any]) -> NDArray[Any]:
    # An empty list has neither a dtype nor inner dimensions of its own.
    inner = kind.dims[1:] if array.shape == (0,) and kind.dims[:1] == (None,) else ()
    return np.empty(array.shape + tuple(size or 0 for size in inner), kind.dtype)


def _as_integers(array: NDArray[Any], value: Any) -> NDArray[Any]:
    # numpy makes float64 of [2**63, 1]: integers that mix the ranges of int64 and uint64 lose digits there.
    objects = np.asarray(value, dtype=object)
    if not objects.size or not all(type(item) is int for item in objects.flat):
        return array
    try:
        return objects.astype(np.int64 if min(objects.flat) < 0 else np.uint64)
    except OverflowError:
        return objects


def _check_cast(kind: Type, array: NDArray[Any], target: np.dtype[Any], field: str | None) -> None:
    source = array.dtype.kind
    if (source == "b") != (target.kind == "b") or (source == "f" and target.kind in "iu"):
        raise _misfit(kind, f"{array.dtype}; convert it first, nothing is cast", field)
    if target.kind in "iu" and array.size:
        limits = np.iinfo(target)
        lowest, highest = int(array.min()), int(array.max())
        if lowest < limits.min or highest > limits.max:
            raise _misfit(kind, f"{lowest if lowest < limits.min else highest}, which does not fit", field)


def _check_rounding(kind: Type, array: NDArray[Any], rounded: NDArray[Any], field: str | None) -> None:
    if array.dtype.kind == "f":
        lost = np.isinf(rounded) & np.isfinite(array)
        why = "which would become infinite"
    else:
        lost = _inexact(array, rounded)
        why = "an integer that this type does not hold exactly"
    if lost.any():
        raise _misfit(kind, f"{array[lost].flat[0]}, {why}", field)


def _inexact(integers: NDArray[Any], rounded: NDArray[Any]) -> NDArray[np.bool_]:
    # Integers within the mantissa are exact; of those beyond, Python's own integers tell.
    bound = 2 ** (np.finfo(rounded.dtype).nmant + 1)
    far = (integers > bound) | (integers < -bound) if integers.dtype.kind == "i" else integers > bound
    lost = np.zeros(integers.shape, np.bool_)
    lost[far] = [
        not math.isfinite(there) or int(there) != here
        for here, there in zip(integers[far].tolist(), rounded[far].tolist(), strict=True)
    ]
    return lost


def _misfit(kind: Type, found: str, field: str | None) -> SpecError:
    return SpecError(f"expected {kind}, found {found}", field=field)
