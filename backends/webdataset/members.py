"""The members of a tar file, from its headers: ustar, GNU and pax (POSIX.1-2001, `tar(5)`)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import NamedTuple

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import StoredFile
from dataformats.storage.header_reader import HeaderReader

BLOCK = 512
_ZEROS = bytes(BLOCK)
_MAX_NAME = 2**20  # bytes of a long name, or of a pax header
_MAX_SIZE = 2**62
_PAX = re.compile(rb"(\d{1,7}) ([^=\n]+)=")
_REGULAR, _NO_DATA, _EXTENDED, _GNU_SPARSE = b"\x0007S", b"123456", b"xXL", b"S"


class Member(NamedTuple):
    """A regular file in a tar file.

    Attributes:
        name: Its path.
        name_at: The byte at which the path begins in the tar file; -1 if it is in two parts there.
        start: The byte at which its first header begins.
        offset: The byte at which its data begin.
        size: Its bytes.
        is_sparse: True if its data are not stored as they are.
    """

    name: bytes
    name_at: int
    start: int
    offset: int
    size: int
    is_sparse: bool


def padded(size: int) -> int:
    """Return the bytes of whole blocks that hold `size` bytes."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


def checksum(head: bytes) -> int:
    """Return the sum of the bytes of a header, in which the checksum itself counts as spaces."""
    total = (zlib.adler32(head[:256]) & 0xFFFF) + (zlib.adler32(head[256:]) & 0xFFFF) - 2  # their low halves are sums
    return total - sum(head[148:156]) + 8 * 32


def header_is_sound(head: bytes) -> bool:
    """True if a block is a header with the right checksum, of unsigned bytes or, as old programs wrote it, signed."""
    stored = _octal(head[148:156])
    if len(head) < BLOCK or stored is None:
        return False
    found = checksum(head)
    return found == stored or found - 256 * sum(byte > 127 for byte in head[:148] + head[156:]) == stored


def members(file: StoredFile) -> Generator[Member, None, tuple[int, bool]]:
    """Yield the regular files of a tar file; return where they end, and whether two blocks of zeros follow.

    A member that reaches past the end of the file is yielded as well.

    Raises:
        FormatError: The file cannot be read on.
    """
    headers = HeaderReader(file)
    at, start, end, extended = 0, 0, 0, dict[bytes, tuple[bytes, int]]()
    while len(head := headers.read(at, BLOCK)) == BLOCK and head != _ZEROS:
        if not header_is_sound(head):
            remedy = "The next header cannot be found"
            raise FormatError("wrong checksum of a header", path=file.name, offset_bytes=at, remedy=remedy)
        kind, data = head[156:157], at + BLOCK
        size = _size(head[124:136], extended.get(b"size", (b"", 0))[0] if kind not in _EXTENDED else b"")
        if size is None or not 0 <= size < _MAX_SIZE:
            raise FormatError("wrong size in a header", path=file.name, offset_bytes=at, found=head[124:136])
        if kind in _EXTENDED:
            if size > _MAX_NAME:
                what, expected = "an extended header is too long", f"at most {_MAX_NAME} bytes"
                raise FormatError(what, path=file.name, offset_bytes=at, expected=expected, found=size)
            extended |= _long_name(headers, data, size) if kind == b"L" else _pax(headers.read(data, size), data, file)
            at, end = data + padded(size), data + size
            continue
        while kind == _GNU_SPARSE and head[482 if data == at + BLOCK else 504 :][:1] == b"\1":
            head, data = headers.read(data, BLOCK), data + BLOCK
        if kind in _REGULAR and not (kind == b"\0" and head[:100].rstrip(b"\0").endswith(b"/")):
            name, name_at = extended[b"path"] if b"path" in extended else (joined_name(head), at)
            name_at = -1 if _has_folder(head) and b"path" not in extended else name_at
            yield Member(name, name_at, start, data, size, kind == _GNU_SPARSE or b"sparse" in extended)
        if kind not in b"gK":
            extended = {}
        stored = 0 if kind in _NO_DATA else size
        at, end = data + padded(stored), data + stored
        start = start if extended else at
    if not head and end <= file.size < at:
        what, expected = "the file ends behind the data of a member", f"{at - end} bytes that fill a block"
        raise TruncatedError(what, path=file.name, offset_bytes=end, expected=expected, found=file.size - end)
    return start, _is_complete(file, headers, at, head, is_pending=bool(extended))


def _is_complete(file: StoredFile, headers: HeaderReader, at: int, head: bytes, *, is_pending: bool) -> bool:
    """True if two blocks of zeros begin at `at`, where `head` is no header; raises if the members do not end there."""
    if len(head) < BLOCK and file.is_compressed and file.size >= 0 and file.damage is not None:  # size finds damage
        raise file.damage
    if is_pending or 0 < len(head) < BLOCK:
        raise TruncatedError(
            "the file ends in a header", path=file.name, offset_bytes=at, expected=f"{BLOCK} bytes", found=len(head)
        )
    second = headers.read(at + BLOCK, BLOCK) if head else b""
    if second.strip(b"\0"):
        what, expected = "a block of zeros where a header is expected", "a header, or two blocks of zeros"
        raise FormatError(what, path=file.name, offset_bytes=at, expected=expected, found="one")
    return len(second) == BLOCK


def joined_name(head: bytes) -> bytes:
    """Return the path in a header, which may have its folder apart."""
    name = head[:100].partition(b"\0")[0]
    return head[345:500].partition(b"\0")[0] + b"/" + name if _has_folder(head) else name


def _has_folder(head: bytes) -> bool:
    return head[345] != 0 and head[257:263] == b"ustar\0"


def _long_name(headers: HeaderReader, data: int, size: int) -> dict[bytes, tuple[bytes, int]]:
    return {b"path": (headers.read(data, size).partition(b"\0")[0], data)}


def _pax(text: bytes, base: int, file: StoredFile) -> dict[bytes, tuple[bytes, int]]:
    """Return the records of a pax header that matter here, each with the place of its value in the file."""
    found: dict[bytes, tuple[bytes, int]] = {}
    at, stop = 0, len(text.rstrip(b"\0"))
    while at < stop:
        match = _PAX.match(text, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise FormatError("a pax header is damaged", path=file.name, offset_bytes=base + at)
        name = b"sparse" if match[2].startswith(b"GNU.sparse") else match[2]
        if name in (b"path", b"size", b"sparse"):
            found[name] = (text[match.end() : end - 1], base + match.end())
        at = end
    return found


def _size(field: bytes, pax: bytes) -> int | None:
    """Return the bytes of a member, by its header's field in octal digits or base 256, or by a pax header."""
    if pax:
        return int(pax) if pax.isdigit() and len(pax) < 20 else None
    return _octal(field) if field[0] < 128 else int.from_bytes(field[1:], "big") if field[0] == 128 else None


def _octal(text: bytes) -> int | None:
    digits = text.partition(b"\0")[0].strip(b" ") or b"0"
    try:
        return int(digits, 8) if digits.isdigit() else None  # `int` takes 1_0 too
    except ValueError:
        return None
