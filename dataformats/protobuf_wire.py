"""The wire encoding of protobuf messages: their fields by number, read without their definition."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""The wire types; groups are not read."""

_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


def fields(blob: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field of a message: an integer for a varint, else bytes.

    Raises:
        ValueError: The message does not parse.
    """
    at = 0
    while at < len(blob):
        tag, at = _varint(blob, at)
        number, wire_type = tag >> 3, tag & 7
        if not number:
            raise ValueError(f"expected the number of a field before byte {at}, found 0")
        if wire_type == VARINT:
            value, at = _varint(blob, at)
            yield number, wire_type, value
            continue
        if wire_type == DELIMITED:
            length, at = _varint(blob, at)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"expected a wire type before byte {at}, found {wire_type}")
        if length > len(blob) - at:
            raise ValueError(f"expected {length} bytes at byte {at}, found {len(blob) - at}")
        yield number, wire_type, blob[at : at + length]
        at += length


def _varint(blob: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at a byte, and the byte behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if offset >= len(blob):
            break
        byte = blob[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise ValueError(f"expected a varint at byte {offset}")
