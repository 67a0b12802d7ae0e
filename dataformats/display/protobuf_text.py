"""Guess if bytes are a protobuf message of an unknown type, and show its fields by their numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["protobuf_text", "read_varint"]

_LEAST_BYTES, _MAX_FIELDS, _MAX_NUMBER = 4, 10_000, 2**14
_SHOWN, _LEVELS, _CHARACTERS = 6, 5, 40
_LAYOUT = str.maketrans("", "", "\t\n\r")
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: struct.Struct("<d"), _FIXED32: struct.Struct("<f")}

_Field = tuple[int, int, "int | bytes"]


def protobuf_text(blob: bytes) -> str | None:
    r"""Return the fields of a message by number, with wire types and values; `None` if the bytes are hardly one.

    It is a guess: other bytes may parse by chance. Text and short bytes are never taken for messages.

    Example:
        >>> from dataformats.display.protobuf_text import protobuf_text
        >>> protobuf_text(b"\x08\x96\x01\x12\x03one")
        "{1: varint 150, 2: 'one'}"
        >>> protobuf_text(b"any text") is None
        True
    """
    return None if _as_text(blob) is not None else _message(blob, _LEVELS)


def _message(blob: bytes, levels: int) -> str | None:
    if len(blob) < _LEAST_BYTES or not levels:
        return None
    try:
        shown, n = [], 0
        for number, wire_type, value in _fields(blob):
            n += 1
            if n <= _SHOWN:
                shown.append(f"{number}: {_value(wire_type, value, levels)}")
    except ValueError:
        return None
    return "{" + ", ".join(shown) + (f", ... ({n} in all)" if n > _SHOWN else "") + "}"


def _value(wire_type: int, value: int | bytes, levels: int) -> str:
    if isinstance(value, int):
        return f"varint {value}"
    if wire_type in _FIXED:
        return f"fixed{8 * len(value)} {_FIXED[wire_type].unpack(value)[0]:.6g} or {int.from_bytes(value, 'little')}"
    text = _as_text(value)
    if text is not None:
        return repr(text) if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]!r}... ({len(text)} characters)"
    return _message(value, levels - 1) or f"{len(value)} bytes"


def _as_text(blob: bytes) -> str | None:
    """Return the bytes as text; `None` if they are no printable UTF-8."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate(_LAYOUT).isprintable() else None


def _fields(blob: bytes) -> Iterator[_Field]:
    """Yield number, wire type and value of each field.

    Raises:
        ValueError: The bytes do not parse, or have numbers or so many fields as messages hardly have.
    """
    at = 0
    for _ in range(_MAX_FIELDS):
        if at == len(blob):
            return
        tag, at = read_varint(blob, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < _MAX_NUMBER:
            raise ValueError(number)
        if wire_type == _VARINT:
            value, at = read_varint(blob, at)
            yield number, wire_type, value
            continue
        if wire_type == _DELIMITED:
            length, at = read_varint(blob, at)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type].size
        else:
            raise ValueError(wire_type)
        if length > len(blob) - at:
            raise ValueError(length)
        yield number, wire_type, blob[at : at + length]
        at += length
    raise ValueError(_MAX_FIELDS)


def read_varint(blob: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a byte, and the byte behind it.

    Raises:
        ValueError: The bytes end within it, or it has more than ten.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(blob):
            break
        byte = blob[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"expected a varint at byte {at}")
