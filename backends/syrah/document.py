"""Parses the elements of a BSON document without copies: only the few kinds in Syrah files.

A general BSON decoder follows lengths to any depth and builds every value. Here each length is checked against the
document around it before it is used, and a value is a place in the buffer, so tables of many megabytes are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from dataformats.errors import FormatError

INT32 = Struct("<i")
STRING = 0x02
DOCUMENT = 0x03
BINARY = 0x05
_FIXED = {0x10: 4, 0x12: 8}  # int32 and int64: syrah 0.1.1 has them
_OVERHEAD = {STRING: 4, DOCUMENT: 0, BINARY: 5}  # bytes of a value that its length does not include
_MIN_BYTES = {STRING: 1, DOCUMENT: 5, BINARY: 0}


@dataclass(frozen=True, slots=True)
class Element:
    """One named value.

    Attributes:
        kind: The BSON type, a number.
        name: Its name.
        start: First byte of the value in the buffer: a text, a binary's content, or a document's length.
        stop: The byte behind the value, without the zero that ends a text.
        subtype: The subtype of a binary; 0 otherwise.
    """

    kind: int
    name: str
    start: int
    stop: int
    subtype: int = 0


def elements(data: bytes | bytearray, start: int, stop: int, path: str, base: int) -> Iterator[Element]:
    """Yield the elements of the document that fills `data[start:stop]`, without descending into them.

    Args:
        data: A buffer with at least five bytes from `start` on.
        start: Where the document begins.
        stop: Where it must end.
        path: The file, for errors.
        base: The offset of the buffer in the file, for errors.

    Raises:
        FormatError: A length leads out of the document, a name or a kind is invalid, or bytes are left over.
    """
    (length,) = INT32.unpack_from(data, start)
    if length != stop - start:
        raise FormatError(
            "a BSON document has the wrong length",
            path=path,
            offset_bytes=base + start,
            expected=f"{stop - start} bytes",
            found=f"{length} bytes",
        )
    if data[stop - 1]:
        raise _error("a BSON document does not end in a zero byte", path, base + stop - 1)
    at, last = start + 4, stop - 1
    while at < last:
        element, at = _element(data, at, last, path, base)
        yield element


def _element(data: bytes | bytearray, offset: int, last: int, path: str, base: int) -> tuple[Element, int]:
    """Return the element at `offset`, and the start of the next one, at most `last`."""
    kind, behind = data[offset], data.find(b"\0", offset + 1, last) + 1
    if not behind:
        raise _error("a name of the BSON document has no end", path, base + offset)
    try:
        name = str(data[offset + 1 : behind - 1], "utf-8")
    except UnicodeDecodeError as error:
        raise _error("a name of the BSON document is not UTF-8", path, base + offset + 1) from error
    if kind in _FIXED:
        start, stop = behind, behind + _FIXED[kind]
        end = stop
    elif kind in _OVERHEAD:
        start, stop, end = _extent(data, kind, behind, last, path=path, base=base)
    else:
        raise _error(f"{name!r} is of BSON type {kind:#04x}, which Syrah files do not use", path, base + offset)
    if end > last:
        raise _error(f"{name!r} reaches out of its BSON document", path, base + behind)
    if kind == STRING and data[end - 1]:
        raise _error(f"the text {name!r} does not end in a zero byte", path, base + end - 1)
    return Element(kind, name, start, stop, data[start - 1] if kind == BINARY else 0), end


def _extent(
    data: bytes | bytearray, kind: int, offset: int, last: int, *, path: str, base: int
) -> tuple[int, int, int]:
    """Return start, stop and end of a value that begins with its length; the end may be out of bounds."""
    if offset + 4 > last:
        raise _error("the length of a value is cut off by the end of the BSON document", path, base + offset)
    (length,) = INT32.unpack_from(data, offset)
    if length < _MIN_BYTES[kind]:
        raise _error(f"a value of the BSON document is {length} bytes long", path, base + offset)
    start = offset + _OVERHEAD[kind]
    end = start + length
    return start, end - (kind == STRING), end


def _error(message: str, path: str, offset_bytes: int) -> FormatError:
    return FormatError(message, path=path, offset_bytes=offset_bytes)
