"""The members of a tar file, from its headers: ustar, GNU and pax (POSIX.1-2001, `tar(5)`)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import StoredFile
from dataformats.storage.header_reader import HeaderReader

BLOCK = 512
SPEC = b"__dataformats__"
"""The first member of files that this package writes: field to stored type. WebDataset skips such names."""
_RECORD = 20 * BLOCK  # most programs fill the last one of a tar file with zeros
_ZEROS = bytes(BLOCK)
_MAX_NAME = 2**20  # bytes of a long name, or of a pax header
_MAX_SIZE = 2**62
_PAX = re.compile(rb"(\d{1,7}) ([^=\n]+)=")
_WINDOW = 2**16
_IN_CHECKSUM = np.isin(np.arange(256), np.frombuffer(b" 01234567\0", np.uint8))
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
        stop: The byte behind its data, and behind the rest of their last block.
    """

    name: bytes
    name_at: int
    start: int
    offset: int
    size: int
    is_sparse: bool
    stop: int


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


class TarMembers:
    """The regular files of a tar file, from its headers in order; of several that were concatenated, of all.

    Args:
        file: The file, decompressed.

    Attributes:
        begin: Where the tar file that is scanned begins: 0, or behind another one.
        end: Where the members end; `None` until the file was scanned up to there.
        is_complete: True if two blocks of zeros follow the last member.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._headers, self._ahead = HeaderReader(file), HeaderReader(file)
        self._has_extended = False
        self.begin: int = 0
        self.end: int | None = None
        self.is_complete: bool = False

    def members(self, at: int) -> Iterator[Member]:
        """Yield the members from the header at byte `at` on.

        A member that reaches past the end of the file is yielded as well.

        Raises:
            FormatError: The file cannot be read on.
        """
        self.end, self.is_complete = yield from self._walk(self._headers, at)
        while self.is_complete and self._ends_at(behind := self._end_of_zeros(self.end) // BLOCK * BLOCK):
            self.begin = behind
            self.end, self.is_complete = yield from self._walk(self._headers, behind)
        if self.is_complete and self.find(self.end) is not None:
            at, self.end = self.end, None
            what = "members follow two blocks of zeros, which end a tar file"
            raise FormatError(what, path=self._file.name, offset_bytes=at)

    def _ends_at(self, behind: int) -> bool:
        """True if another tar file begins at `behind`, and the zeros are those that programs write at the end of one.

        Other zeros may be a hole of damage: two blocks of them end a file of this package alone, whose next begins so.
        """
        assert self.end is not None
        head, end = self._headers.read(behind, BLOCK), self.end + 2 * BLOCK
        is_end = behind == end + (self.begin - end) % _RECORD or (behind == end and head.startswith(SPEC))
        return is_end and header_is_sound(head)

    def find(self, first: int) -> int | None:
        """Return the first place from `first` on where a member of this file begins, or `None`.

        The header of a member has a checksum. But there may be tar files in the data of members: theirs lead to zeros
        inside this file.
        """
        at, stop = padded(first), self._file.size - BLOCK
        while at <= stop:
            window = self._headers.read(at, min(_WINDOW, self._file.size - at) // BLOCK * BLOCK)
            if len(window) < BLOCK:
                return None
            at, base, passed = at + len(window) // BLOCK * BLOCK, at, 0
            for place in _likely_headers(window):
                if place < passed or not self._begins_member(window[place : place + BLOCK]):
                    continue
                is_member, end = self._follow(base + place)
                if is_member:
                    return base + place
                passed = end - base
            at = max(at, base + padded(passed))
        return None

    def _begins_member(self, head: bytes) -> bool:
        """True if a sound header is all that tells the name of a member: no extended header may lie before it.

        Programs shorten a name in the header of a member, or replace its letters, if an extended header has the name.
        """
        is_alone = not self._has_extended and head[99] == 0 and b"?" not in head[:100]
        return header_is_sound(head) and (is_alone or head[156:157] in _EXTENDED)

    def _follow(self, at: int) -> tuple[bool, int]:
        """Return whether headers from byte `at` on are of this file, and where the search goes on if they are not."""
        n_members, stop = 0, at + BLOCK
        try:
            walk = self._walk(self._ahead, at)
            while True:
                stop = max(stop, next(walk).stop)
                n_members += 1
        except StopIteration as ended:
            behind = self._end_of_zeros(ended.value[0])
            return behind >= self._file.size and n_members > 0, max(stop, behind)
        except FormatError as error:
            return n_members > 0, max(stop, error.offset_bytes or 0)

    def _end_of_zeros(self, at: int) -> int:
        """Return the place of the first byte from `at` on that is not 0."""
        while window := self._ahead.read(at, _WINDOW):
            left = window.lstrip(b"\0")
            at += len(window) - len(left)
            if left:
                break
        return at

    def _walk(self, headers: HeaderReader, at: int) -> Generator[Member, None, tuple[int, bool]]:
        """Yield the members from byte `at` on; return where they end, and whether two blocks of zeros follow.

        Raises:
            FormatError: The file cannot be read on.
        """
        file, start, end, extended = self._file, at, at, dict[bytes, tuple[bytes, int]]()
        while len(head := headers.read(at, BLOCK)) == BLOCK and head != _ZEROS:
            if not header_is_sound(head):
                raise FormatError("wrong checksum of a header", path=file.name, offset_bytes=at)
            kind, data = head[156:157], at + BLOCK
            size = _size(head[124:136], extended.get(b"size", (b"", 0))[0] if kind not in _EXTENDED else b"")
            if size is None or not 0 <= size < _MAX_SIZE:
                raise FormatError("wrong size in a header", path=file.name, offset_bytes=at, found=head[124:136])
            if kind in _EXTENDED:
                if size > _MAX_NAME:
                    what, expected = "an extended header is too long", f"at most {_MAX_NAME} bytes"
                    raise FormatError(what, path=file.name, offset_bytes=at, expected=expected, found=size)
                extended |= (
                    _long_name(headers, data, size) if kind == b"L" else _pax(headers.read(data, size), data, file)
                )
                self._has_extended |= headers is self._headers
                at, end = data + padded(size), data + size
                continue
            while kind == _GNU_SPARSE and head[482 if data == at + BLOCK else 504 :][:1] == b"\1":
                head, data = headers.read(data, BLOCK), data + BLOCK
            end = data + (0 if kind in _NO_DATA else size)
            if kind in _REGULAR and not (kind == b"\0" and head[:100].rstrip(b"\0").endswith(b"/")):
                name, name_at = extended[b"path"] if b"path" in extended else (joined_name(head), at)
                name_at = -1 if _has_folder(head) and b"path" not in extended else name_at
                is_sparse = kind == _GNU_SPARSE or b"sparse" in extended
                yield Member(name, name_at, start, data, size, is_sparse, padded(end))
            at = padded(end)
            if kind not in b"gK":
                extended = {}
            start = start if extended else at
        if not head and end <= file.size < at:
            what, expected = "the file ends behind the data of a member", f"{at - end} bytes that fill a block"
            raise TruncatedError(what, path=file.name, offset_bytes=end, expected=expected, found=file.size - end)
        return start, _is_complete(file, headers, at, head, is_pending=bool(extended))


def _likely_headers(window: bytes) -> list[int]:
    """Return where blocks of a window have digits for a checksum, and a name."""
    blocks = np.frombuffer(window, np.uint8, len(window) // BLOCK * BLOCK).reshape(-1, BLOCK)
    is_likely = _IN_CHECKSUM[blocks[:, 148:156]].all(axis=1) & (blocks[:, 0] != 0)
    return (BLOCK * np.flatnonzero(is_likely)).tolist()


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
