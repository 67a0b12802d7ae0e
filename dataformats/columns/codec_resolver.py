"""Resolve types to codecs, refuse unsafe codecs named by files, and encode values into blobs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dataformats.batch import Blobs, Column
from dataformats.columns.exact_cast import DTYPES, to_exact_array
from dataformats.columns.field_decoder import check_dims, column_decoder, error_message
from dataformats.columns.numbers import NumberCodec, NumberColumn
from dataformats.errors import CodecError, MissingExtraError, Remedy, SpecError, UnknownNameError
from dataformats.foreign_names import TYPES
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.registry import codecs as registered
from dataformats.spec import ML_TYPES, NUMBER_TYPES, Spec, Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CodecLike = Codec | tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""A codec in `codecs=`: an object, or a pair (encode, decode)."""


@dataclass(frozen=True)
class FunctionCodec(Codec):
    """A codec made from functions.

    Attributes:
        name: The name of the codec in specs.
        encoder: Value to bytes.
        decoder: Bytes to value.
        batch_decoder: `Blobs` to a column, or `None`: one by one.
        safe: True if decoding runs no code from the data.
    """

    name: str
    encoder: Callable[[Any], bytes]
    decoder: Callable[[bytes], Any]
    batch_decoder: Callable[[Blobs], Column] | None = None
    safe: bool = False

    def encode(self, value: Any) -> bytes:
        """Return `encoder(value)`."""
        return self.encoder(value)

    def decode(self, blob: bytes) -> Any:
        """Return `decoder(blob)`."""
        return self.decoder(blob)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return `batch_decoder(blobs)`; without one, a list."""
        return super().decode_batch(blobs) if self.batch_decoder is None else self.batch_decoder(blobs)


_NUMBERS = {name: NumberCodec(name) for name in (*DTYPES, *ML_TYPES)}
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
        name: Its name in specs.
        encode: Value to bytes.
        decode: Bytes to value; must not read outside them.
        decode_batch: `Blobs` to a column, if that is faster than one by one.
        safe: True lets files name it: decoding must run no code from the data.
        replace: Replace the codec that has the name.

    Raises:
        ValueError: The name is taken and `replace` is not given, or it is a number type.

    Example:
        >>> import dataformats
        >>> dataformats.register_codec("latin1", lambda text: text.encode("latin1"), lambda blob: blob.decode("latin1"))
        >>> str(dataformats.Type.parse("latin1[]"))
        'latin1[]'
    """
    for function in (encode, decode):
        if not callable(function):
            raise TypeError(f"expected a function, found {function!r}")
    if Type.parse(name) != Type(name):
        raise SpecError(f"{name!r} is not a codec name: it has arguments, dims or a '?'")
    if name in NUMBER_TYPES:
        raise ValueError(f"{name!r} is a number type; choose another name, or pass codecs= to a call")
    codec = FunctionCodec(name, encode, decode, decode_batch, safe)
    if name in registered and not registered.shipped(name) and registered.get(name) == codec:
        return
    registered.register(name, codec, replace=replace)
    _registered_safe.pop(name, None)
    if safe:
        _registered_safe[name] = codec


class CodecResolver:
    r"""Resolves types to codecs for one call: first its own codecs, then numbers, then the registry.

    Thread-safe. Pickles if the overrides do.

    Args:
        overrides: Name, or a whole element type as `"int(8)"`, to a codec or a pair (encode, decode).
        trusted: True if the call named all types; False if a file did: then only codecs resolve that are safe and
            part of this package, or were registered with `safe=True`. Or the codec names that the call gave.
        installed: The names of other codecs that a file may name if they are safe: see `codecs_beside`.

    Example:
        >>> import numpy as np
        >>> from dataformats import Type
        >>> from dataformats.batch import Blobs
        >>> from dataformats.columns.codec_resolver import CodecResolver
        >>> codecs = CodecResolver({"upper": (str.encode, lambda blob: blob.decode().upper())}, trusted=False)
        >>> codecs.decode(Type.parse("upper"), Blobs.join([b"a", b"b"]))
        ['A', 'B']
        >>> codecs.encode(Type.parse("float32[2]"), [1, 0.5])
        [b'\x00\x00\x80?\x00\x00\x00?']
    """

    def __init__(
        self,
        overrides: Mapping[str, CodecLike] | None = None,
        *,
        trusted: bool | frozenset[str],
        installed: frozenset[str] = frozenset(),
    ) -> None:
        self.trusted = trusted
        self.installed = installed
        self.overrides: dict[str, Codec] = {name: _as_codec(name, codec) for name, codec in (overrides or {}).items()}
        self._found: dict[Type, Codec] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.overrides, self.trusted, self.installed)

    def codec(self, element: Type) -> Codec:
        """Return the codec of an element type, or the codec `bytes` if it is opaque: see `known_codec`."""
        found = self._found.get(element)
        if found is None:
            try:
                found = self.known_codec(element)
            except (UnknownNameError, SpecError):
                if self._trusts(element.codec) or element.codec in self.overrides:
                    raise
                found = self.known_codec(Type("bytes"))
            self._found[element] = found
        return found

    def known_codec(self, element: Type) -> Codec:
        """Return the codec of an element type, configured with its arguments; dims and `?` are ignored.

        Raises:
            UnknownNameError: No such codec, or a file may not name it.
            SpecError: The codec does not take these arguments.
        """
        return self._resolve(element.element)

    def opaque(self, kinds: Mapping[str, Type]) -> dict[str, Type]:
        """Return the fields whose codec is unknown, may not be named by a file, or does not take its arguments."""
        return {name: kind for name, kind in kinds.items() if not self._resolves(kind)}

    def _resolves(self, type_: Type) -> bool:
        try:
            self.known_codec(type_)
        except (UnknownNameError, SpecError):
            return False
        return True

    def decode(
        self,
        type_: Type,
        blobs: Blobs,
        counts: NDArray[np.int64] | None = None,
        *,
        field: str | None = None,
    ) -> Column:
        """Return the column of a field stored as blobs: see `FieldCodecs.decode`."""
        return column_decoder(self.codec(type_.element), type_, field)(blobs, counts, field)

    def encode(self, type_: Type, value: Any, *, field: str | None = None) -> list[bytes]:
        """Return the blobs of a value: see `encode_value`."""
        return encode_value(self, type_, value, field=field)

    def encoder(self, type_: Type, field: str) -> Callable[[Any], list[bytes]]:
        """Return the function of the value alone that does what `encode` does, faster for common values."""
        codec = self.codec(type_.element)
        if type_.optional or (type_.dims and codec is not _NUMBERS.get(type_.codec)):
            return functools.partial(self.encode, type_, field=field)
        if codec is not _NUMBERS.get(type_.codec):
            return lambda value: [_encode_element(codec, value, field)]
        width, signed = DTYPES[type_.codec].itemsize, DTYPES[type_.codec].kind == "i"
        is_integer = not type_.dims and DTYPES[type_.codec].kind in "iu"

        def encode_number(value: Any) -> list[bytes]:
            if is_integer and type(value) is int:
                try:
                    return [value.to_bytes(width, "little", signed=signed)]
                except OverflowError:
                    pass  # `to_exact_array` raises the error of this package
            return [to_exact_array(type_, value, field=field).tobytes()]

        check_dims(type_, field)
        return encode_number

    def batch_encoder(self, type_: Type) -> Callable[[Column], Blobs | None]:
        """Return the function that encodes a column, one blob a value; it returns `None` for values it cannot encode.

        It raises any error for values that `encoder` reports.
        """
        codec = self.codec(type_.element)
        if type_.optional or (type_.dims and codec is not _NUMBERS.get(type_.codec)):
            return lambda column: None
        return NumberColumn(type_).blobs if codec is _NUMBERS.get(type_.codec) else codec.encode_batch

    def _trusts(self, name: str) -> bool:
        return self.trusted if isinstance(self.trusted, bool) else name in self.trusted

    def _may_be_named_by_files(self, name: str) -> bool:
        # A name that a file chose must not even import an entry point: importing is running code. `installed` are names
        # that the package of the file's backend chose, whose code runs already.
        if registered.shipped(name) or name in self.installed:
            return bool(getattr(registered.get(name), "safe", False))  # a pair of functions does not say
        return name in _registered_safe and registered.get(name) is _registered_safe[name]

    def _resolve(self, element: Type) -> Codec:
        if str(element) in self.overrides:
            return self.overrides[str(element)]
        if element.codec in self.overrides:
            return self.overrides[element.codec].with_args(element.args)
        if element.codec in _NUMBERS:
            return _NUMBERS[element.codec].with_args(element.args)
        if not self._trusts(element.codec) and not self._may_be_named_by_files(element.codec):
            raise UnknownNameError(
                "codec that a file may name",
                name=element.codec,
                known=[*(name for name in registered if self._may_be_named_by_files(name)), *NUMBER_TYPES],
                remedy=_remedy(element.codec),
            )
        return _look_up(element.codec).with_args(element.args)


def _rebuild(overrides: dict[str, Codec], trusted: bool | frozenset[str], installed: frozenset[str]) -> CodecResolver:
    return CodecResolver(overrides, trusted=trusted, installed=installed)


def _as_codec(name: str, codec: CodecLike) -> Codec:
    if isinstance(codec, Codec):
        return codec
    pair: Any = codec
    if isinstance(pair, tuple) and len(pair) == 2 and all(callable(part) for part in pair):
        return FunctionCodec(name, *pair)
    raise SpecError(f"codec {name!r} must be a Codec or a pair (encode, decode), found {codec!r}")


def _remedy(name: str) -> Remedy:
    if meant := TYPES.get(name.lower()):
        return Remedy(f"Pass {{spec}} with {' or '.join(map(repr, meant))}.", spec=...)
    return Remedy("Pass {codecs}, or name it in {payload} or {spec}.", codecs={name: ...}, payload=..., spec=...)


def _look_up(name: str) -> Codec:
    try:
        return _as_codec(name, registered.get(name))
    except UnknownNameError as error:
        raise UnknownNameError("codec", name=name, known=[*error.known, *NUMBER_TYPES], remedy=_remedy(name)) from None


def as_bytes(kinds: Mapping[str, Type], fields: Collection[str]) -> Spec:
    """Return the types, with `bytes` for some fields: one blob per value, or per element."""
    return Spec(
        {name: replace(kind, codec="bytes", args=()) if name in fields else kind for name, kind in kinds.items()}
    )


def holds_numbers(codecs: FieldCodecs, type_: Type) -> bool:
    """Return True if the elements of `type_` are numbers, and no override replaces that number type."""
    return type_.codec in _NUMBERS and codecs.codec(type_) is _NUMBERS[type_.codec]


def encode_value(codecs: FieldCodecs, type_: Type, value: Any, *, field: str | None = None) -> list[bytes]:
    """Return the blobs of a value: one; with dims and a codec that is not a number's, one per element.

    Args:
        codecs: Resolves the codec of the elements.
        type_: The field's type.
        value: The value; `None` gives no blob if the type has a `?`.
        field: The field's name, for errors.

    Raises:
        SpecError: The value does not fit the type (numbers: see `to_exact_array`), or a sequence has other sizes than
            the dims.
        CodecError: The codec refuses the value.
    """
    if value is None and type_.optional:
        return []
    check_dims(type_, field)
    codec = codecs.codec(type_.element)
    if codec is _NUMBERS.get(type_.codec):
        return [to_exact_array(type_, value, field=field).tobytes()]
    elements = [value]
    for size in type_.dims:
        elements = [part for element in elements for part in _parts(type_, element, size, field)]
    return [_encode_element(codec, element, field) for element in elements]


def _parts(type_: Type, value: Any, size: int | None, field: str | None) -> list[Any]:
    if isinstance(value, str | bytes | bytearray | Mapping) or not hasattr(value, "__iter__"):
        raise SpecError(f"expected a sequence for {type_}, found {type(value).__name__}", field=field)
    parts = list(value)
    if size is not None and len(parts) != size:
        raise SpecError(f"expected {size} elements for {type_}, found {len(parts)}", field=field)
    return parts


def _encode_element(codec: Codec, value: Any, field: str | None) -> bytes:
    try:
        blob = codec.encode(value)
    except (MemoryError, MissingExtraError):
        raise  # the machine or the installation causes these, not the value
    except Exception as error:
        raise CodecError(error_message(error), codec=codec.name, field=field) from error
    if not isinstance(blob, bytes):
        raise CodecError(f"encode gave {type(blob).__name__}, expected bytes", codec=codec.name, field=field)
    return blob
