"""Random access into GZIP and ZLIB files: copies of the decompressor's state at checkpoints.

The standard library's zlib is used because it sees truncation (`eof`) and checks CRC32 and Adler-32 on a full pass;
rapidgzip and indexed_gzip read a cut file as a shorter one without an error.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError, TruncatedError
from dataformats.storage.files import StoredFile
from dataformats.storage.forks import after_fork

__all__ = ["Inflated"]

_WBITS = {"gzip": 31, "zlib": 15}
_READ = 64 * 1024
_STEP = 256 * 1024  # decompressed bytes between checkpoints, at first
_MAX_CHECKPOINTS = 1024  # about 40 KB each
_CURSORS = 4


@dataclass(slots=True)
class _Cursor:
    """A decompressor that stands at a decompressed position."""

    state: Any
    source: int  # compressed bytes handed to it
    position: int  # decompressed bytes it gave
    pending: bytes = b""  # handed to it, not yet taken

    def copy(self) -> _Cursor:
        return _Cursor(self.state.copy(), self.source, self.position, self.pending)


class Inflated(StoredFile):
    """The decompressed bytes of a file, as a file.

    Attributes:
        damage: Why the decompressed bytes end before the compressed ones do, once `size` is known.
    """

    def __init__(self, file: StoredFile, compression: str) -> None:
        self._file = file
        self._wbits = _WBITS[compression]
        self.name = file.name
        self.identity = (*file.identity, compression)
        self.damage: FormatError | None = None
        self._size: int | None = None
        self._step = _STEP
        self._checkpoints = [_Cursor(self._fresh(), 0, 0)]
        self._cursors: list[_Cursor] = []  # where recent reads ended, so that a sequential reader goes on there
        self._lock = threading.Lock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def _fresh(self) -> Any:
        return zlib.decompressobj(self._wbits)

    @property
    def compressed(self) -> StoredFile:
        """The file as it lies on the disk."""
        return self._file

    @property
    def size(self) -> int:  # type: ignore[override]  # found by a pass over the file, then kept
        """The decompressed bytes that can be had; the first call goes through the whole file."""
        if self._size is None:
            self._size = self._measure()
        return self._size

    def known_size(self, size: int, damage: FormatError | None) -> None:
        """Take the size and the damage from an index, in place of a pass over the file."""
        self._size, self.damage = size, damage

    def read_into(self, offset: int, out: memoryview) -> int:
        cursor = self._nearest(offset)
        while cursor.position < offset:
            if not self._advance(cursor, min(offset - cursor.position, self._to_checkpoint(cursor))):
                return 0
        done = 0
        while done < len(out):
            part = self._advance(cursor, min(len(out) - done, self._to_checkpoint(cursor)))
            if not part:
                break
            out[done : done + len(part)] = part
            done += len(part)
        self._keep(cursor)
        return done

    def pread(self, offset: int, length: int) -> bytes:
        """Return up to `length` decompressed bytes; memory grows with what is there, not with `length`."""
        parts, step = [], 2**20
        while length > 0:
            out = bytearray(min(step, length))
            n = self.read_into(offset, memoryview(out))
            parts.append(bytes(out[:n]))
            if n < len(out):
                break
            offset, length = offset + n, length - n
        return b"".join(parts)

    def sibling(self, name: str) -> StoredFile | None:
        return self._file.sibling(name)

    def _measure(self) -> int:
        cursor = self._nearest(2**63)
        while self._advance(cursor, self._to_checkpoint(cursor)):
            pass
        return cursor.position

    def _nearest(self, offset: int) -> _Cursor:
        with self._lock:
            kept = [cursor for cursor in self._cursors if cursor.position <= offset]
            number = bisect_right(self._checkpoints, offset, key=lambda checkpoint: checkpoint.position) - 1
            best = self._checkpoints[number]
            for cursor in kept:
                if cursor.position >= best.position:
                    best = cursor
            if best in kept:
                self._cursors.remove(best)
                return best
            return best.copy()

    def _keep(self, cursor: _Cursor) -> None:
        with self._lock:
            self._cursors = [*self._cursors[-(_CURSORS - 1) :], cursor]

    def _to_checkpoint(self, cursor: _Cursor) -> int:
        """Return how far a cursor may go before a checkpoint is due, and set one that is due now."""
        with self._lock:
            due = self._checkpoints[-1].position + self._step
            if cursor.position >= due:
                self._checkpoints.append(cursor.copy())
                if len(self._checkpoints) > _MAX_CHECKPOINTS:
                    self._checkpoints = self._checkpoints[::2]
                    self._step *= 2
                due = cursor.position + self._step
        return min(due - cursor.position, self._step)

    def _advance(self, cursor: _Cursor, most: int) -> bytes:
        """Return the next 1 to `most` decompressed bytes, or none at the end or where damage begins."""
        while True:
            if cursor.state.eof and not self._next_member(cursor):
                return b""
            if not cursor.pending:
                cursor.pending = self._file.pread(cursor.source, _READ)
                cursor.source += len(cursor.pending)
                if not cursor.pending and not cursor.state.eof:
                    return self._broken(cursor, "the compressed data end early", TruncatedError)
            try:
                out: bytes = cursor.state.decompress(cursor.pending, most)
            except zlib.error as error:
                return self._broken(cursor, f"the compressed data are damaged ({error})", FormatError)
            cursor.pending = cursor.state.unconsumed_tail
            if out:
                cursor.position += len(out)
                return out

    def _next_member(self, cursor: _Cursor) -> bool:
        """Go on with the next gzip member; False at the end of the file."""
        rest = cursor.state.unused_data + cursor.pending
        rest = rest or self._file.pread(cursor.source, _READ)
        if not cursor.state.unused_data and not cursor.pending:
            cursor.source += len(rest)
        if not rest.strip(b"\0") and cursor.source >= self._file.size:
            return False
        if self._wbits != _WBITS["gzip"] or not rest.lstrip(b"\0").startswith(b"\x1f"):
            self._broken(cursor, "bytes follow the compressed data", FormatError)
            return False
        cursor.state, cursor.pending = self._fresh(), rest.lstrip(b"\0")
        return True

    def _broken(self, cursor: _Cursor, what: str, kind: type[FormatError]) -> bytes:
        self.damage = kind(
            what,
            path=self.name,
            offset_bytes=cursor.position,
            found=f"{self._file.size} compressed bytes, {cursor.position} decompressed",
        )
        return b""
