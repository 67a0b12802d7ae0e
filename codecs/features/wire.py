"""The proto3 wire encoding of feature maps, by hand: protobuf's own is slow for large values."""

from __future__ import annotations

from collections.abc import Iterator

from dataformats.kernels.reference.wire_write import (
    delimited,
    map_entry,
    packed_bytes,
    packed_integers,
    packed_numbers,
    varint,
)

__all__ = [
    "delimited",
    "map_entry",
    "packed_bytes",
    "packed_integers",
    "packed_numbers",
    "top_level",
    "varint",
]

_DELIMITED = 2
_MAX_VARINT = 10


def top_level(blob: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and payload of each field of a message.

    Raises:
        ValueError: The message does not parse, or has a field that is not length-delimited.
    """
    at = 0
    while at < len(blob):
        tag, at = _read_varint(blob, at)
        length, at = _read_varint(blob, at)
        if tag & 7 != _DELIMITED or tag >> 3 == 0 or length > len(blob) - at:
            raise ValueError(f"no length-delimited field at byte {at}")
        yield tag >> 3, blob[at : at + length]
        at += length


def _read_varint(blob: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        if at >= len(blob):
            break
        byte = blob[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"no varint at byte {at}")
