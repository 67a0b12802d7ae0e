"""Nested lists and mappings: JSON, MessagePack and pickle."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn, cast

import msgpack
import numpy as np

from dataformats.interfaces import Codec

_DECODE: Callable[[bytes], Any] | None
try:
    from msgspec.json import Decoder

    _DECODE = Decoder().decode
except ImportError:  # no wheel for this platform: the standard library decodes all documents
    _DECODE = None

MAX_BYTES = 2**30
"""The largest document, encoded."""

MAX_DEPTH = 512
"""The deepest nesting of lists and mappings."""

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # an unterminated string takes the rest
_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


class _Json(Codec):
    """JSON by RFC 8259: no NaN, no infinity, keys are str. Tuples come back as lists."""

    name = "json"

    def encode(self, value: Any) -> bytes:
        """Return compact UTF-8. Lone surrogates, which UTF-8 lacks, are escaped."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        check_document(value, str)  # must follow dumps, which refuses lists that contain themselves
        return check_size(text.encode(errors="backslashreplace"))

    def decode(self, blob: bytes) -> Any:
        """Return the value. The last of duplicate keys counts."""
        blob = bytes(check_size(blob))
        with suppress(ValueError):
            value = parse_with_msgspec(blob)
            if blob.count(b"[") + blob.count(b"{") <= MAX_DEPTH or not is_deep(value):
                return value
        text = blob.decode()
        check_nesting(text)
        return json.loads(text, parse_constant=_refuse_constant)


class _Msgpack(Codec):
    """MessagePack as Granular writes it: `use_bin_type`, and only str or bytes as keys."""

    name = "msgpack"

    def encode(self, value: Any) -> bytes:
        """Return the packed value. A key that could not be read back raises."""
        packed = cast("bytes", msgpack.packb(value, use_bin_type=True))
        check_document(value, (str, bytes))
        return check_size(packed)

    def decode(self, blob: bytes) -> Any:
        """Return the value. No length in the data may exceed the size of the blob."""
        return unpack(blob)


class _Pickle(Codec):
    """Pickle. Decoding runs code that the data name, so it is only used when the caller names it."""

    name = "pickle"
    safe = False

    def encode(self, value: Any) -> bytes:
        """Return the pickle, in protocol 5 on every Python."""
        return pickle.dumps(value, protocol=5)

    def decode(self, blob: bytes) -> Any:
        """Return the object."""
        return pickle.loads(blob)


def unpack(blob: bytes, list_hook: Callable[[list[Any]], Any] | None = None) -> Any:
    """Return the value of a MessagePack document. Memory is allocated only for data that are there.

    Args:
        blob: One document, at most `MAX_BYTES`.
        list_hook: Converts each list, innermost first.
    """
    size = len(check_size(blob))
    # Lists are allocated at their stated length, on every level; skipping first makes sure that all items are there.
    counter = msgpack.Unpacker(max_buffer_size=max(size, 1))
    counter.feed(blob)
    counter.skip()
    value = msgpack.unpackb(
        blob,
        raw=False,
        strict_map_key=True,
        list_hook=list_hook,
        max_str_len=size,
        max_bin_len=size,
        max_array_len=size,
        max_map_len=size // 2,
        max_ext_len=size,
    )
    if size > MAX_DEPTH and is_deep(value):  # each level takes a byte
        raise _too_deep()
    return value


def parse_with_msgspec(blob: bytes) -> Any:
    """Return the value of a JSON document that msgspec reads as `json.loads` does, but faster.

    Raises:
        ValueError: `json.loads` has to judge the document. It is damaged, nested very deep, or has a number or a text
            that msgspec refuses: NaN, 1e999, a lone surrogate.
    """
    if _DECODE is None:
        raise ValueError("msgspec is missing")
    try:
        return _DECODE(blob)
    except RecursionError as error:
        raise ValueError("nested very deep") from error


def is_deep(value: Any) -> bool:
    """Return True if lists and mappings in a value are nested deeper than `MAX_DEPTH`."""
    return any(depth == MAX_DEPTH for depth, _ in enumerate(_levels(value)))


def check_size(blob: bytes) -> bytes:
    """Return the document; raise if it is larger than `MAX_BYTES`."""
    if len(blob) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, found {len(blob)}")
    return blob


def check_document(value: Any, keys: type | tuple[type, ...]) -> None:
    """Raise if a key would come back as another value, or nesting is deeper than `MAX_DEPTH`."""
    for depth, level in enumerate(_levels(value)):
        if depth == MAX_DEPTH:
            raise _too_deep()
        for part in level:
            if isinstance(part, Mapping):
                _check_keys(part, keys)


class _IsContainer(dict[type, bool]):
    """True for a type of lists or mappings. Looking it up takes a tenth of `isinstance` with an abstract class."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = issubclass(kind, (list, tuple, Mapping))
        return found


_IS_CONTAINER = _IsContainer()


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the lists and mappings of each level of nesting, outermost first: without end if one contains itself."""
    level = [value]
    while level := [item for item in level if _IS_CONTAINER[type(item)]]:
        yield level
        level = [*chain.from_iterable([part if isinstance(part, (list, tuple)) else part.values() for part in level])]


def _too_deep() -> ValueError:
    return ValueError(f"expected at most {MAX_DEPTH} levels of nesting, found more")


def _check_keys(mapping: Mapping[Any, Any], keys: type | tuple[type, ...]) -> None:
    for key in mapping:
        if not isinstance(key, keys):
            raise TypeError(f"expected keys that are str, found {key!r}")


def check_nesting(text: str) -> None:
    """Raise if the lists and mappings of a JSON document are nested deeper than `MAX_DEPTH`."""
    is_flat = "[" not in text and text.find("{", 1) < 0  # a search takes a tenth of the time of a count
    if is_flat or text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    outside = np.frombuffer(_STRING.sub("", text).encode(), np.uint8)
    depth = int(np.cumsum(_STEP[outside], dtype=np.int64).max(initial=0))
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} levels of nesting, found {depth}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"expected JSON, found {name}")


JSON = _Json()
"""Compact JSON in UTF-8."""

MSGPACK = _Msgpack()
"""MessagePack."""

PICKLE = _Pickle()
"""Pickle. Only used when the caller names it explicitly."""
