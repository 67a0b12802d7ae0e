"""Files that the caller gives as bytes, or as open file objects."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.shared_memory_file import MemoryFile

_OF_ITS_PROCESS = "a file object belongs to the process that opened it: for other processes open its path, or its bytes"


class _Buffer(StoredFile):
    def __init__(self, data: bytes | bytearray | memoryview, name: str) -> None:
        self.name = name
        self.bytes: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.size = len(self.bytes)
        self.identity = (str(self.size),)

    def read_into(self, offset: int, out: memoryview) -> int:
        found = self.bytes[offset : offset + len(out)]
        out[: len(found)] = found.data
        return len(found)

    def file_beside(self, name: str) -> None:
        return None


class BytesFile(MemoryFile):
    """A file whose bytes the caller gives; they are not copied, and must not change meanwhile. Errors have its name."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self._buffer = _Buffer(data, name)
        super().__init__(self._buffer)
        self.has_name = False

    def _load(self) -> NDArray[np.uint8]:
        return self._buffer.bytes


class OpenedFile(StoredFile):
    """A file object of Python that reads bytes and seeks. It stays open, and is read by its own process alone.

    Raises:
        TypeError: It is not opened in binary mode.
        ValueError: It cannot be read, or cannot seek.
    """

    def __init__(self, handle: Any) -> None:
        name = getattr(handle, "name", None)  # a number, if it has only a descriptor
        self.name: str = name if isinstance(name, str) and name else f"<{type(handle).__name__}>"
        if isinstance(handle, io.TextIOBase):
            raise TypeError(f"{self.name!r} is opened as text: open it in binary mode, 'rb'")
        if not (handle.readable() and handle.seekable()):
            raise ValueError(f"{self.name!r} cannot be read at any place: pass its bytes, as file.read() returns them")
        self._handle = handle
        self._lock = threading.Lock()
        self.size: int = int(handle.seek(0, os.SEEK_END))
        self.identity: tuple[str, ...] = (str(self.size),)
        self.has_name = False
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._handle = None  # its file position is shared with the parent process

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if self._handle is None:
                raise ValueError(f"{self.name!r}: {_OF_ITS_PROCESS}")
            self._handle.seek(offset)
            done = 0
            while done < len(out) and (part := self._handle.read(len(out) - done)):
                out[done : done + len(part)] = part
                done += len(part)
        return done

    def file_beside(self, name: str) -> None:
        return None


def is_file_object(value: Any) -> bool:
    """Return True for anything with the methods of an open file that can be read."""
    return hasattr(value, "read") and hasattr(value, "seek")


def to_reopenable(path: Any) -> Any:
    """Return the name of an open file of the local disk, or the bytes of one in memory; anything else unchanged."""
    if isinstance(path, (list, tuple)):
        return [to_reopenable(part) for part in path]
    if isinstance(path, io.BytesIO):
        return path.getvalue()
    raw = path.raw if isinstance(path, io.BufferedReader) else path
    if isinstance(raw, io.FileIO) and isinstance(raw.name, (str, bytes)) and not raw.writable():
        name = os.fsdecode(raw.name)
        if os.path.exists(name) and os.path.samestat(os.stat(name), os.fstat(raw.fileno())):
            return name
    return path


def to_picklable(path: Any) -> Any:
    """Return the form that a path, bytes, or a list of these have in a pickle.

    Raises:
        TypeError: It is a file object that no other process can open.
    """
    if isinstance(path, (list, tuple)):
        return [to_picklable(part) for part in path]
    if is_file_object(path) and not hasattr(path, "fs"):
        raise TypeError(_OF_ITS_PROCESS)
    return bytes(path) if isinstance(path, memoryview) else path
