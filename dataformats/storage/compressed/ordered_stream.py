"""OrderedStream: consecutive reads of a compressed file, which another thread decompresses ahead of them."""

from __future__ import annotations

import io
import threading
from collections import deque
from contextlib import suppress
from gzip import BadGzipFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import buffers
from dataformats.storage.compressed.decompressor import fast_library
from dataformats.storage.threads import submit

_BLOCK = 2**20
_BUFFER = 2**19  # compressed bytes of a read
_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(7)  # RFC 1952
_RESERVED_FLAGS = 0xE0
_ZLIB_HEADER = 2  # bytes, before the same deflate data

_AHEAD = 2**20  # decompressed bytes that wait for the next reads
_LONGEST_JUMP = 2**24  # bytes between two reads: a jump over more is no read in order
_KEPT_STRIDES = 8  # reads of several threads come in nearly the right order, up to this many later than another one
_MAX_KEPT = 2**25


class OrderedStream:
    """The decompressed bytes of a file from its start on, for reads in order. Thread-safe.

    ISA-L decompresses into whole blocks, so that a thread rarely waits for the GIL. The first read decompresses in the
    thread of its caller. From the second one on, a thread of the shared pool does so beforehand, and pauses at `_AHEAD`
    bytes that nothing has read.

    Args:
        file: The compressed file.
        compression: `"gzip"` or `"zlib"`.
        size: The number of its decompressed bytes.
    """

    def __init__(self, file: StoredFile, compression: str, size: int) -> None:
        self._decompressed = _open(file, compression)
        self._is_zlib = compression == "zlib"
        self._size = size
        self._changed = threading.Condition()
        self._blocks: deque[NDArray[np.uint8]] = deque()  # the bytes from `_begin` to `_end`
        self._begin = self._end = 0
        self._reached = 0  # the highest end of a read
        self._stride = 0  # the most bytes from the end of a read to the next
        self._is_taking = False
        self._has_helper = False
        self._is_broken = self._decompressed is None

    def holds(self, offset: int) -> bool:
        """Return True if the bytes from `offset` on have not been dropped."""
        return self._begin <= offset

    def read_into(self, offset: int, out: memoryview) -> bool:
        """Fill `out` from byte `offset` on; return False if the bytes have been dropped, or cannot be read."""
        end = offset + len(out)
        with self._changed:
            if not self._begin <= offset <= self._reached + _LONGEST_JUMP:
                return False
            is_first, self._stride = not self._reached, max(self._stride, end - self._reached)
            self._reached = max(self._reached, end)
            while self._end < end and not self._is_broken:
                if self._is_taking:
                    self._changed.wait()
                else:
                    self._take_block()
            if self._end < end or self._begin > offset:  # while it waited, the bytes may have been dropped
                return False
            if not is_first and not self._has_helper and self._is_short:
                with suppress(RuntimeError):  # the interpreter ends: the callers do all work
                    submit(self._take_ahead)
                    self._has_helper = True
            blocks, begin = list(self._blocks), self._begin
            self._drop_old()
        _copy(blocks, offset - begin, out)
        return True

    def stop(self) -> None:
        """Decompress nothing more."""
        with self._changed:
            self._is_broken = True

    @property
    def _is_short(self) -> bool:
        return not self._is_broken and self._end < min(self._reached + _AHEAD, self._size)

    def _take_ahead(self) -> None:
        with self._changed:
            while self._is_short and not self._is_taking:
                self._take_block()
            self._has_helper = False

    def _take_block(self) -> None:
        """Decompress a block, without the lock meanwhile."""
        n, n_left = 0, self._size - self._end
        block = buffers.empty(_BLOCK if n_left > 2 * _BLOCK else n_left)
        self._is_taking = True
        self._changed.release()
        try:
            while n < len(block) and (n_more := self._decompressed.readinto(block[n:])):
                n += n_more
        except BadGzipFile:  # the wrong trailer of ZLIB, behind all data
            n = n_left if self._is_zlib and len(block) == n_left else 0
        except Exception:  # the caller reads these bytes in another way, which reports the error
            n = 0
        finally:
            self._changed.acquire()
            self._is_taking = False
            self._is_broken |= not n
            if n:
                self._blocks.append(block[:n])
                self._end += n
            self._changed.notify_all()

    def _drop_old(self) -> None:
        kept = min(_KEPT_STRIDES * self._stride, _MAX_KEPT)
        while self._blocks and self._begin + len(self._blocks[0]) < self._reached - kept:
            self._begin += len(self._blocks.popleft())


class _Stored(io.RawIOBase):
    """The bytes of a compressed file as GZIP: deflate data of ZLIB get another header, and a trailer that is wrong."""

    def __init__(self, file: StoredFile, compression: str) -> None:
        self._file = file
        is_gzip = compression == "gzip"
        self._at = 0 if is_gzip else _ZLIB_HEADER
        self._added = [b""] if is_gzip else [_GZIP_HEADER, bytes(4)]  # before the bytes of the file, and behind them

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        view = memoryview(out).cast("B")
        n = 0 if len(self._added) > 1 else self._file.read_into(self._at, view)
        self._at += n
        if n or not self._added:
            return n
        added = self._added.pop(0)
        view[: len(added)] = added
        return len(added)


def _open(file: StoredFile, compression: str) -> Any:
    """Return an object with `readinto`; `None` without ISA-L, or for flags that it would not refuse."""
    library = fast_library("isal.igzip")
    flags = file.pread(3, 1) if compression == "gzip" else b"\0"
    if not hasattr(library, "_IGzipReader") or not flags or flags[0] & _RESERVED_FLAGS:
        return None
    # `IGzipFile` would copy each block once more, and lose the bytes before a wrong trailer.
    return library._IGzipReader(_Stored(file, compression), _BUFFER)


def _copy(blocks: list[NDArray[np.uint8]], offset: int, out: memoryview) -> None:
    """Copy the bytes from `offset` on."""
    done = 0
    for block in blocks:
        if offset < len(block) and done < len(out):
            part = block[offset : offset + len(out) - done]
            out[done : done + len(part)] = part.data
            done += len(part)
        offset = max(0, offset - len(block))
