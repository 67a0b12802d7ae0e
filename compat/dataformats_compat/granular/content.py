"""Where the bytes of bags come from: local files that may grow, path objects, and shared memory."""

from __future__ import annotations

import atexit
import errno
import os
from contextlib import suppress
from io import BytesIO
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

from dataformats.internals import ObjectFile, is_local

__all__ = ["Content", "GrowingFile", "PathFile", "SharedBuffer", "content_of"]


_AHEAD_BYTES = 8192


class GrowingFile:
    """A local file. It may grow while it is read, because writers of bags append to them in place.

    If it is read in order, a few kilobytes are read at once: a writer never changes bytes that have an end.
    """

    buf: Any = None
    _ahead: tuple[int, bytes] = -1, b""  # where it begins, and the bytes
    _next = -1  # the end of the last read

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name: str = os.fspath(path)

    @property
    def size(self) -> int:
        """Bytes, as of now."""
        return os.stat(vars(self).get("_descriptor", self.name)).st_size

    def pread(self, offset: int, length: int) -> bytes:
        """Return these bytes, fewer only at the end."""
        begin, ahead = self._ahead
        if offset >= begin:
            part = ahead[offset - begin : offset - begin + length]
            if len(part) == length:
                return part
        descriptor = vars(self).get("_descriptor")
        if descriptor is None:
            descriptor = self._open()
        if length < _AHEAD_BYTES and (offset == self._next or begin <= offset <= begin + len(ahead)):
            ahead = os.pread(descriptor, _AHEAD_BYTES, offset)
            self._ahead = offset, ahead
            return ahead[:length]
        self._next = offset + length
        return os.pread(descriptor, length, offset)

    def _open(self) -> int:
        opened = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        used: int = vars(self).setdefault("_descriptor", opened)
        if used != opened:  # another thread was first
            os.close(opened)
        return used

    def close(self) -> None:
        """Close the file."""
        vars(self).pop("_ahead", None)
        descriptor = vars(self).pop("_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close

    def __reduce__(self) -> tuple[Any, ...]:
        return GrowingFile, (self.name,)


class PathFile(ObjectFile):
    """A file behind a path object with `open`."""

    buf: Any = None

    def close(self) -> None:
        """Close the file."""
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return PathFile, (self._path,)


class SharedBuffer:
    """Bytes in named shared memory: a pickle of it holds the name, and the process that loads it copies nothing.

    The memory is freed by `close` of the first one, or as its process ends.

    Args:
        content: The bytes.

    Attributes:
        size: Their number.
        buf: The memory; `None` after `close`.

    Example:
        >>> from dataformats_compat.granular.bag import SharedBuffer
        >>> buffer = SharedBuffer(b"bytes")
        >>> bytes(buffer[1:3])
        b'yt'
        >>> buffer.close()
    """

    def __init__(self, content: Any) -> None:
        self._owner = os.getpid()
        self.size: int = len(content)
        self._attach(None)
        self.buf[: self.size] = content
        atexit.register(self.close)  # not when it is collected: a pickle of it may be used later

    def _attach(self, name: str | None) -> None:
        if name is None:
            _check_room(self.size)
        self.shm = None if not self.size else SharedMemory(name, create=name is None, size=self.size)
        self.name: str = "" if self.shm is None else self.shm.name
        self.buf: Any = bytearray() if self.shm is None else self.shm.buf

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self.buf is None

    def __getitem__(self, index: Any) -> Any:
        return self.buf[index]

    def open(self, mode: str = "rb") -> BytesIO:
        """Return a copy as a file."""
        return BytesIO(self.pread(0, self.size))

    def pread(self, offset: int, length: int) -> bytes:
        """Return these bytes, fewer only at the end."""
        return bytes(self.buf[offset : min(offset + length, self.size)])

    def close(self) -> None:
        """Release the memory; the object that made it frees it."""
        atexit.unregister(self.close)
        shm, self.shm, self.buf = self.shm, None, None
        if shm is not None:
            try:
                shm.close()
            except BufferError:  # a view of a caller frees it; `SharedMemory.__del__` would print an error
                vars(shm)["close"] = lambda: None
            if self._owner == os.getpid():
                with suppress(FileNotFoundError):
                    shm.unlink()

    def __getstate__(self) -> tuple[str, int]:
        return self.name, self.size

    def __setstate__(self, state: tuple[str, int]) -> None:
        name, self.size = state
        self._owner = 0
        self._attach(name)


def _check_room(size: int) -> None:
    """Raise `OSError` if shared memory is too small: filling it would end the process."""
    folder = "/dev/shm"
    if os.path.isdir(folder):
        about = os.statvfs(folder)
        free = about.f_bavail * about.f_frsize
        if size > free:
            remedy = "Pass cache_index=False and no cache_keys, or enlarge it (docker run --shm-size)"
            raise OSError(errno.ENOSPC, f"{folder} has {free} bytes left, and {size} are needed. {remedy}")


Content = GrowingFile | PathFile | SharedBuffer
"""Bytes that are read by position, by several threads; in `buf` if they are in memory. Pickles."""


def content_of(source: Any) -> Content:
    """Return the content of a path, a path object or bytes; a `SharedBuffer` is its own content."""
    if isinstance(source, SharedBuffer):
        return source
    if is_local(source):
        return GrowingFile(Path(source))
    return PathFile(source) if hasattr(source, "open") else SharedBuffer(source)
