"""The proto3 wire encoding of feature maps, by hand: protobuf's own is slow for large values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dataformats.protobuf_wire import DELIMITED

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_VARINT = 10
_LAST_BITS = np.uint64(0x7F)
_CONTINUED = np.uint8(0x80)
_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def varint(value: int) -> bytes:
    """Return a non-negative integer below 2^64 as a varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def delimited(number: int, payload: bytes) -> bytes:
    """Return a field whose value is a message or bytes: tag, length, payload."""
    return varint(number << 3 | DELIMITED) + varint(len(payload)) + payload


def map_entry(number: int, name: bytes, value: bytes) -> bytes:
    """Return an entry of a map field: a message of key (1) and value (2)."""
    return delimited(number, delimited(1, name) + delimited(2, value))


def packed_bytes(values: Iterable[bytes]) -> bytes:
    """Return a list message of bytes values."""
    return b"".join(delimited(1, value) for value in values)


def packed_numbers(values: NDArray[np.float32] | NDArray[np.float64]) -> bytes:
    """Return a list message of floats or doubles."""
    return delimited(1, values.tobytes()) if len(values) else b""


def packed_integers(values: NDArray[np.int64]) -> bytes:
    """Return a list message of integers; negative ones take ten bytes each."""
    return delimited(1, _varints(values.astype(np.uint64))) if len(values) else b""


def _varints(values: NDArray[np.uint64]) -> bytes:
    """Return uint64[n] as varints, back to back."""
    if len(values) == 1:
        return varint(int(values[0]))
    if int(values.max()) <= _LAST_BITS:
        return values.astype(np.uint8).tobytes()
    # One row a value, seven bits a column; a column is kept if any bits are left from there on.
    rest = values[:, None] >> np.arange(0, 7 * _MAX_VARINT, 7, dtype=np.uint64)
    kept = rest > 0
    kept[:, 0] = True
    groups = (rest & _LAST_BITS).astype(np.uint8)
    groups[:, :-1][kept[:, 1:]] |= _CONTINUED
    return groups[kept].tobytes()
