"""Writing one Example, SequenceExample or OFRecord in Python: the specification of the C kernel, by proto3's rules.

All of them nest the same parts: a map entry of name and feature, a feature that holds one list, a list of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Field",
    "delimited",
    "map_entry",
    "packed_bytes",
    "packed_integers",
    "packed_numbers",
    "varint",
    "wire_plan",
    "wire_write",
]

_DELIMITED = 2
_MAX_VARINT = 10
_LAST_BITS = np.uint64(0x7F)
_CONTINUED = np.uint8(0x80)
_ONE_BYTE = [bytes([value]) for value in range(0x80)]

_OFRECORD, _BYTES, _FLOATS, _DOUBLES = 2, 1, 2, 4
_TENSORFLOW = {1: 1, 2: 2, 3: 3}
_NUMBERS = {0: _TENSORFLOW, 1: _TENSORFLOW, _OFRECORD: {1: 1, 2: 2, 4: 3, 5: 4, 3: 5}}
"""Shape, and kind of list, to the number of the field in a Feature."""


# ---- the parts of a message


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
    return varint(number << 3 | _DELIMITED) + varint(len(payload)) + payload


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
    # One row a value, seven bits a column; a column is kept where any bits are left from there on.
    rest = values[:, None] >> np.arange(0, 7 * _MAX_VARINT, 7, dtype=np.uint64)
    kept = rest > 0
    kept[:, 0] = True
    groups = (rest & _LAST_BITS).astype(np.uint8)
    groups[:, :-1][kept[:, 1:]] |= _CONTINUED
    return groups[kept].tobytes()


# ---- records


class Field(NamedTuple):
    """What a field is to become.

    Attributes:
        name: Its name in the record, UTF-8.
        part: 0 for the context, or the only map; 1 for the feature lists.
        kind: The list that its values go to; 6 for a message that is made elsewhere.
        required: True where every record has it.
        item: What values are without being asked about: 0 numbers, 1 bytes, 2 text, 3 something else.
        letter: The kind of the numbers' dtype.
        width: The bytes of one.
        dims: Sizes, -1 for any.
    """

    name: bytes
    part: int
    kind: int
    required: bool
    item: int
    letter: str
    width: int
    dims: tuple[int, ...]


def wire_plan(shape: int, fields: tuple[Field, ...], array_type: type, scalar_type: type, /) -> Any:
    """Return how records are written: what `wire_write` takes.

    Args:
        shape: What they are.
        fields: Their fields, in the order in which they are written.
        array_type: `np.ndarray`; only of this type, and of subtypes of the next, memory is taken for numbers.
        scalar_type: `np.generic`.
    """
    return shape, fields


def wire_write(plan: Any, values: tuple[Any, ...], normalise: Callable[[int, Any], Any], /) -> bytes:
    """Return the bytes of a record.

    Args:
        plan: What `wire_plan` gave.
        values: A value for each field; `None` where the record has none.
        normalise: Called with a field's number and its value; returns an array of the declared dtype and dims, a
            list of bytes, or bytes, the message that is the map's value. It raises where a value does not fit, and
            for the `None` of a required field. The C kernel does without it where a value is already an integer,
            a float, a bool, such an array, bytes, text, or a list of these two.
    """
    shape, fields = plan
    maps: dict[int, list[bytes]] = {0: [], 1: []}
    for i, (field, value) in enumerate(zip(fields, values, strict=True)):
        if value is not None or field.required:
            message = _message(shape, field, normalise(i, value))
            maps[field.part].append(map_entry(1, field.name, message))
    if shape == _OFRECORD:
        return b"".join(maps[0])
    return b"".join(delimited(part + 1, b"".join(entries)) for part, entries in maps.items() if entries)


def _message(shape: int, field: Field, made: NDArray[Any] | list[bytes] | bytes) -> bytes:
    if isinstance(made, bytes):
        return made
    if isinstance(made, list):
        values = packed_bytes(made)
    elif field.kind == _BYTES:
        values = packed_bytes([part.tobytes() for part in (made if field.dims[:1] == (-1,) else [made])])
    elif field.kind in (_FLOATS, _DOUBLES):
        values = packed_numbers(made.reshape(-1))
    else:
        values = packed_integers(made.reshape(-1).astype(np.int64))
    return delimited(_NUMBERS[shape][field.kind], values)
