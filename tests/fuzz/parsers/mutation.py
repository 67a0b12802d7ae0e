"""Changes of golden inputs: of bytes, of JSON values, of MessagePack values, and of files with checksums."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgpack

Change = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""Returns changed bytes. The last argument holds other inputs of the same kind, to take pieces from."""

MAX_BYTES = 1 << 16
_NUMBERS = (0, 1, 2, 7, 8, 9, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)
_EDGES = (*_NUMBERS, 2**63, 2**64 - 1)
_FORMS = ("<B", "<H", "<I", "<Q", ">H", ">I", ">Q")
_TOKENS = (
    *(b"\0" * 8, b"\xff" * 8, b"[]", b"{}", b"?", b"(", b",", b'"', b"-", b"1e999"),
    *(b"\\u0000", b"\xc3\x28", b"/..", b"9" * 5000),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**18, 10**19 - 1, 10**30, 0.5, -0.0),
    *("", "a", "0", "-1", "\0", "é", "\ud800", "..", "a/b", "int64", "[]", "float32[", "pickle", "x" * 300, "1" * 5000),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [0] * 40, [[0, 0]], float("inf"), float("nan")),
)


def change_bytes(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return bytes with one to eight small changes."""
    found = bytearray(data)
    for _ in range(1 << random.randrange(4)):
        _CHANGES[random.randrange(len(_CHANGES))](random, found, others)
    return bytes(found[:MAX_BYTES])


def change_json(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return JSON of a changed value; bytes that are no JSON are changed as bytes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return change_bytes(random, data, others)
    for _ in range(1 << random.randrange(3)):
        value = changed_value(random, value)
    return json.dumps(value).encode()[:MAX_BYTES]


def change_msgpack(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return MessagePack of a changed value; anything else is changed as bytes."""
    try:
        value = changed_value(random, msgpack.unpackb(data, strict_map_key=False))
        return (msgpack.packb(value, unicode_errors="surrogatepass") or b"")[:MAX_BYTES]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException, RecursionError):
        return change_bytes(random, data, others)


def changed_value(random: Random, value: Any) -> Any:
    """Return a tree of lists and dicts with one change at a random place."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        return _changed_dict(random, value)
    if isinstance(value, list) and value and random.random() < 0.85:
        return _changed_list(random, value)
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.5:
        return random.choice((value + 1, value - 1, -value, value * 2, value ^ 1 << random.randrange(64)))
    if isinstance(value, str) and value and random.random() < 0.5:
        return change_bytes(random, value.encode("utf-8", "surrogatepass"), ()).decode("utf-8", "replace")
    return _nested(random) if random.random() < 0.02 else random.choice(_VALUES)


def _changed_dict(random: Random, value: dict[Any, Any]) -> dict[Any, Any]:
    key = random.choice([*value])
    rest = {name: item for name, item in value.items() if name != key}
    match random.randrange(8):
        case 0:
            return rest
        case 1:
            return {**rest, str(random.choice(_VALUES)): value[key]}
        case 2:
            return {**value, random.choice(("", "a", "\0", "é", "x" * 99)): random.choice(_VALUES)}
    return {**value, key: changed_value(random, value[key])}


def _changed_list(random: Random, value: list[Any]) -> list[Any]:
    at = random.randrange(len(value))
    match random.randrange(8):
        case 0:
            return value[:at] + value[at + 1 :]
        case 1:
            return value[:at] + value[at : at + 1] * random.choice((2, 3, 9)) + value[at + 1 :]
        case 2:
            return random.sample(value, len(value))
    return [*value[:at], changed_value(random, value[at]), *value[at + 1 :]]


def _nested(random: Random) -> Any:
    value: Any = 0
    for _ in range(random.choice((20, 90, 400))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _place(random: Random, data: bytearray) -> int:
    # Heads and ends hold the lengths and tables.
    size = len(data)
    where = random.random()
    if where < 0.3:
        return random.randrange(min(size, 32) + 1)
    return size - random.randrange(min(size, 32) + 1) if where < 0.5 else random.randrange(size + 1)


def _flip(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _place(random, data)
    if at < len(data):
        data[at] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _place(random, data)
    if at < len(data):
        data[at] = random.randrange(256)


def _number(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    form = random.choice(_FORMS)
    size = struct.calcsize(form)
    at = _place(random, data)
    if at + size <= len(data):
        if random.random() < 0.5:
            number = struct.unpack_from(form, data, at)[0] + random.choice((-8, -1, 1, 8, 255))
        else:
            number = random.choice(_EDGES) * random.choice((1, 1, -1)) + random.choice((0, 0, -1, 1))
        struct.pack_into(form, data, at, number % (1 << 8 * size))


def _insert(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _place(random, data)
    data[at:at] = random.choice(_TOKENS) if random.random() < 0.5 else random.randbytes(random.randrange(1, 9))


def _delete(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _place(random, data)
    del data[at : at + random.choice((1, 1, 2, 4, 8, 16, 64))]


def _cut(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_place(random, data) :]


def _repeat(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _place(random, data)
    data[at:at] = data[at : at + random.choice((1, 4, 8, 12, 32))] * random.choice((1, 1, 2, 9))


def _copy(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others) if others else bytes(data)
    if other:
        start, size = random.randrange(len(other)), random.choice((1, 4, 8, 16, 64, 512))
        at = _place(random, data)
        data[at : at + (size if random.random() < 0.5 else 0)] = other[start : start + size]


_CHANGES = (_flip, _flip, _set, _set, _number, _number, _number, _insert, _delete, _cut, _repeat, _copy)
