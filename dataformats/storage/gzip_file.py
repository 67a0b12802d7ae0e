"""Random access into GZIP and ZLIB files: copies of the decompressor's state at checkpoints.

The standard library's zlib is used because it sees truncation (`eof`) and checks CRC32 and Adler-32 on a full
pass; rapidgzip and indexed_gzip read a cut file as a shorter one without an error.

Which decompressed bytes of a damaged file are readable must not depend on how they are read. zlib drops the output
of a call that finds damage, so that call is repeated in halves, down to one byte in and one byte out.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError, TruncatedError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces import OutdatedIndexError
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["WBITS", "DecompressedFile"]

WBITS = {"gzip": 31, "zlib": 15}
"""The `wbits` of `zlib` for each compression."""

_READ = 16 * 1024  # a checkpoint may hold this much compressed data
_STEP = 256 * 1024  # decompressed bytes between checkpoints, at first
_MAX_CHECKPOINTS = 1024  # of one file; 40 to 56 KB each
_MIN_CHECKPOINTS = 4
_ALL_CHECKPOINTS = 8192  # of all files of the process, approximately
_CURSORS = 4
_SHARE = 8  # of `max_record_bytes`: longer records need a file that is not much smaller
_EXPANSION = 100  # sound records of this size are rarely compressed more
_END = 2**63

_LIVE: weakref.WeakSet[DecompressedFile] = weakref.WeakSet()


@dataclass(slots=True, eq=False)
class _Cursor:
    """A decompressor at a decompressed position."""

    state: Any
    source: int  # compressed bytes given to it
    position: int  # decompressed bytes returned
    pending: bytes = b""  # given to it, not yet consumed

    def copy(self) -> _Cursor:
        return _Cursor(self.state.copy(), self.source, self.position, self.pending)

    def take(self, most: int) -> bytes:
        """Return up to `most` decompressed bytes of the pending input.

        Raises:
            zlib.error: The pending input is damaged at its start.
        """
        before = self.state.copy()
        try:
            out: bytes = self.state.decompress(self.pending, most)
        except zlib.error:
            out = self._take_before_damage(before, most)
        else:
            self.pending = _left(self.state)
        self.position += len(out)
        return out

    def _take_before_damage(self, state: Any, most: int) -> bytes:
        """Return the bytes before the damage, at least one; raises `zlib.error` if there are none."""
        n_in, n_out = len(self.pending), most
        while True:
            attempt = state.copy()
            try:
                out: bytes = attempt.decompress(self.pending[:n_in], n_out)
            except zlib.error:
                if n_in <= 1 and n_out <= 1:
                    self.state = state
                    raise
                n_in, n_out = (n_in // 2, n_out) if n_in > 1 else (n_in, n_out // 2)
                continue
            self.pending = _left(attempt) + self.pending[n_in:]
            state, n_in, n_out = attempt, len(self.pending), most
            if out or attempt.eof or not self.pending:
                self.state = attempt
                return out


def _left(state: Any) -> bytes:
    """Return the compressed bytes that were not consumed; at the end, `unused_data` may hold them instead."""
    left: bytes = b"" if state.eof else state.unconsumed_tail
    return left


class DecompressedFile(StoredFile):
    """The decompressed bytes of a file, as a file.

    Attributes:
        damage: Why the decompressed bytes end early, once `size` is known; `None` if the file is sound.
    """

    def __init__(self, file: StoredFile, compression: str) -> None:
        self._file = file
        self._wbits = WBITS[compression]
        self.compression = compression
        self.name: str = file.name
        self.identity: tuple[str, ...] = (*file.identity, compression)
        self.damage: FormatError | None = None
        self._size: int | None = None
        self._is_measured = False
        self._step = _STEP
        self._checkpoints = [_Cursor(self._fresh(), 0, 0)]
        self._cursors: list[_Cursor] = []  # where recent reads ended: a sequential reader continues there
        self._unlock()
        after_fork(self, "_unlock")
        _LIVE.add(self)

    def _unlock(self) -> None:
        self._lock = threading.Lock()
        self._seeking = threading.Lock()

    def _fresh(self) -> Any:
        return zlib.decompressobj(self._wbits)

    @property
    def stored(self) -> StoredFile:
        """The compressed file."""
        return self._file

    @property
    def size(self) -> int:  # type: ignore[override]  # computed by a pass over the file, then cached
        """The number of readable decompressed bytes; the first call reads the whole file."""
        if self._size is None:
            self._size, self._is_measured = self._measure(), True
        return self._size

    def known_size(self, size: int, damage: FormatError | None) -> None:
        """Set the size and the damage from an index, instead of a pass over the file."""
        self._size, self.damage, self._is_measured = size, damage, False

    def forget_size(self) -> None:
        """Measure the size again: the index that it came from is of another file."""
        self._size, self.damage = None, None

    def most_record_bytes(self, max_record_bytes: int) -> int:
        """Return an eighth of `max_record_bytes`, or 100 times the bytes of the file if that is more."""
        return min(max_record_bytes, max(max_record_bytes // _SHARE, _EXPANSION * self._file.size))

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` from decompressed byte `offset`; return the number of bytes read, fewer only at the end."""
        cursor = self._at(offset)
        done = 0
        while cursor.position == offset + done and done < len(out):
            part = self._advance(cursor, min(len(out) - done, self._to_checkpoint(cursor)))
            if not part:
                break
            out[done : done + len(part)] = part
            done += len(part)
        self._keep(cursor)
        if done < len(out) and self._size is not None and offset + done < self._size:
            if self.damage is None and not self._is_measured:
                what = "the decompressed data are shorter than the index says"
                raise OutdatedIndexError(what, path=self.name, expected=self._size, found=offset + done)
            raise self.damage or self._broken(cursor, "the decompressed data were truncated", TruncatedError)
        return done

    def pread(self, offset: int, length: int) -> bytes:
        """Return up to `length` decompressed bytes; uses memory for the bytes found, not for `length`."""
        parts, step = [], 2**20
        while length > 0:
            out = bytearray(min(step, length))
            n = self.read_into(offset, memoryview(out))
            parts.append(bytes(memoryview(out)[:n]))
            if n < len(out):
                break
            offset, length = offset + n, length - n
        return b"".join(parts)

    def release(self) -> None:
        self._file.release()

    def sibling(self, name: str) -> StoredFile | None:
        """Return the file `name` beside the compressed one; `None` if it does not exist."""
        return self._file.sibling(name)

    def _measure(self) -> int:
        cursor = self._at(_END)
        self._keep(cursor)
        return cursor.position

    def _at(self, offset: int) -> _Cursor:
        """Return a cursor at `offset`, or at the end of the readable bytes before it."""
        cursor = self._nearest(offset)
        if offset - cursor.position <= self._step:
            return self._skip(cursor, offset)
        # Far: one thread decompresses and leaves checkpoints; waiting threads start from these.
        self._keep(cursor)
        with self._seeking:
            return self._skip(self._nearest(offset), offset)

    def _skip(self, cursor: _Cursor, offset: int) -> _Cursor:
        while cursor.position < offset:
            if not self._advance(cursor, min(offset - cursor.position, self._to_checkpoint(cursor))):
                break
        return cursor

    def _nearest(self, offset: int) -> _Cursor:
        with self._lock:
            number = bisect_right(self._checkpoints, offset, key=lambda checkpoint: checkpoint.position) - 1
            checkpoint = self._checkpoints[number]
            kept = [c for c in self._cursors if checkpoint.position <= c.position <= offset]
            if not kept:
                return checkpoint.copy()
            best = max(kept, key=lambda cursor: cursor.position)
            self._cursors.remove(best)
            return best

    def _keep(self, cursor: _Cursor) -> None:
        with self._lock:
            self._cursors = [*self._cursors[-(_CURSORS - 1) :], cursor]

    def _to_checkpoint(self, cursor: _Cursor) -> int:
        """Add a checkpoint if one is due; return the number of bytes until the next one."""
        with self._lock:
            due = self._checkpoints[-1].position + self._step
            if cursor.position >= due:
                self._checkpoints.append(cursor.copy())
                most = max(_MIN_CHECKPOINTS, min(_MAX_CHECKPOINTS, _ALL_CHECKPOINTS // max(1, len(_LIVE))))
                while len(self._checkpoints) > most:
                    self._checkpoints = self._checkpoints[::2]
                    self._step *= 2
                due = max(self._checkpoints[-1].position + self._step, cursor.position + 1)
        return min(due - cursor.position, _STEP)

    def _advance(self, cursor: _Cursor, most: int) -> bytes:
        """Return the next 1 to `most` decompressed bytes; `b""` at the end or at damage."""
        while True:
            if cursor.state.eof and not self._next_member(cursor):
                return b""
            n_read = self._feed(cursor)
            try:
                out = cursor.take(most)
            except zlib.error as error:
                self._broken(cursor, f"the compressed data are damaged ({error})", FormatError)
                return b""
            if out:
                return out
            if not n_read and not cursor.pending and not cursor.state.eof:
                self._broken(cursor, "the compressed data end early", TruncatedError)
                return b""

    def _feed(self, cursor: _Cursor) -> int:
        """Read compressed bytes for a cursor that has none pending; return how many are pending."""
        if not cursor.pending:
            cursor.pending = self._file.pread(cursor.source, _READ)
            cursor.source += len(cursor.pending)
        return len(cursor.pending)

    def _next_member(self, cursor: _Cursor) -> bool:
        """Continue with the next gzip member; returns False at the end of the file."""
        rest = cursor.state.unused_data + cursor.pending
        source = cursor.source
        while True:
            if self._wbits == WBITS["gzip"]:
                rest = rest.lstrip(b"\0")  # padding, which gzip itself accepts
            if rest:
                break
            rest = self._file.pread(source, _READ)
            source += len(rest)
            if not rest:
                return False
        if self._wbits != WBITS["gzip"] or not rest.startswith(b"\x1f"):
            self._broken(cursor, "bytes follow the compressed data", FormatError)
            return False
        cursor.state, cursor.source, cursor.pending = self._fresh(), source, rest
        return True

    def _broken(self, cursor: _Cursor, what: str, kind: type[FormatError]) -> FormatError:
        self.damage = kind(
            what,
            path=self.name,
            offset_bytes=cursor.position,
            found=f"{self._file.size} compressed bytes, {cursor.position} decompressed",
        )
        return self.damage
