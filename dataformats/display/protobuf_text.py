"""Guess if bytes are a protobuf message of an unknown type, and show its fields by their numbers."""

from __future__ import annotations

import struct

from dataformats.display.media import media_text
from dataformats.display.text import quote_text, text_of
from dataformats.protobuf_wire import FIXED32, FIXED64, fields

_MIN_BYTES, _MAX_FIELDS, _MAX_NUMBER = 4, 10_000, 2**14
_SHOWN, _LEVELS, _CHARACTERS = 6, 5, 40
_FLOATS = {FIXED64: struct.Struct("<d"), FIXED32: struct.Struct("<f")}


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
    return None if text_of(blob, len(blob)) is not None else _message(blob, _LEVELS)


def _message(blob: bytes, levels: int) -> str | None:
    if len(blob) < _MIN_BYTES or not levels:
        return None
    try:
        shown, n = [], 0
        for number, wire_type, value in fields(blob):
            n += 1
            if number >= _MAX_NUMBER or n > _MAX_FIELDS:
                return None
            if n <= _SHOWN:
                shown.append(f"{number}: {_value(wire_type, value, levels)}")
    except ValueError:
        return None
    return "{" + ", ".join(shown) + (f", ... ({n} in all)" if n > _SHOWN else "") + "}"


def _value(wire_type: int, value: int | bytes, levels: int) -> str:
    if isinstance(value, int):
        return f"varint {value}"
    if wire_type in _FLOATS:
        return f"fixed{8 * len(value)} {_FLOATS[wire_type].unpack(value)[0]:.6g} or {int.from_bytes(value, 'little')}"
    text, media = text_of(value, len(value)), media_text(value)
    if text is not None:
        return quote_text(text, _CHARACTERS)
    return f"{media}, {len(value)} bytes" if media else _message(value, levels - 1) or f"{len(value)} bytes"
