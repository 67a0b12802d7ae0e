"""Files in memory: read once into anonymous memory that workers share, or memory-mapped."""

from __future__ import annotations

import mmap
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.files import LocalFile

_STEP = 8 * 2**20
_PAGE = 4096


class SharedMemory:
    """Anonymous memory with room for several files, and a flag for each that tells if it is loaded.

    Forked children use the same pages, whichever process loads a file. So do processes that multiprocessing spawns with
    a source as an argument (on Linux; elsewhere they read the files again). It uses one descriptor for all files, and
    has no name, so it is freed when the last process ends.

    Args:
        sizes: Bytes of each file.
        given: The result of `shared` for the same files, in the process that spawned this one.
    """

    def __init__(self, sizes: Sequence[int], given: Any = None) -> None:
        begins = np.cumsum([-(-size // _PAGE) * _PAGE for size in (len(sizes), *sizes)])
        self._begins = begins.tolist()
        self._descriptor: int | None = given.detach() if given is not None else _memfd()
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, False)
            if given is None:
                os.ftruncate(self._descriptor, self._begins[-1])
        descriptor = -1 if self._descriptor is None else self._descriptor
        self._bytes = np.frombuffer(mmap.mmap(descriptor, self._begins[-1]), np.uint8)

    def room(self, number: int, size: int) -> NDArray[np.uint8]:
        """Return uint8[size], the memory of a file."""
        begin = self._begins[number]
        return self._bytes[begin : begin + size]

    def has(self, number: int) -> bool:
        """Return True if a process that shares this memory has loaded the file."""
        return bool(self._bytes[number])

    def set_loaded(self, number: int) -> None:
        """Mark the file as loaded."""
        self._bytes[number] = 1

    def shared(self) -> Any:
        """Return a picklable handle for the process that multiprocessing is spawning; `None` if it cannot be shared."""
        if get_spawning_popen() is None or self._descriptor is None:
            return None
        return reduction.DupFd(self._descriptor)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # `os` may be gone when Python ends
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            close(descriptor)


def _memfd() -> int | None:
    return os.memfd_create("dataformats", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else None


class MemoryFile(StoredFile):
    """A file whose bytes are in memory after its first use."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self.name: str = file.name
        self.identity: tuple[str, ...] = file.identity
        self._memory: NDArray[np.uint8] | None = None
        self._lock = threading.Lock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @property
    def size(self) -> int:  # type: ignore[override]  # a compressed file computes it
        """The size of the file in bytes."""
        return self._file.size

    @property
    def memory(self) -> NDArray[np.uint8]:
        """uint8[size], the bytes; loaded at first use."""
        with self._lock:
            if self._memory is None:
                self._memory = self._load()
            return self._memory

    @abstractmethod
    def _load(self) -> NDArray[np.uint8]:
        """Return the bytes of the file; called once, under a lock."""

    def read_into(self, offset: int, out: memoryview) -> int:
        n = max(0, min(len(out), self.size - offset))
        if n:
            out[:n] = self.memory.data[offset : offset + n]
        return n

    def most_record_bytes(self, max_record_bytes: int) -> int:
        return self._file.most_record_bytes(max_record_bytes)

    def release(self) -> None:
        self._file.release()

    def file_beside(self, name: str) -> StoredFile | None:
        return self._file.file_beside(name)

    def folder(self) -> Folder | None:
        """Return the folder of the file."""
        return self._file.folder()


class CachedFile(MemoryFile):
    """A file that is read into memory at its first use.

    Args:
        file: The file.
        memory: The shared memory of its bytes; `None` allocates memory for this file, which forked children share.
        number: The number of the file in that memory.
    """

    def __init__(self, file: StoredFile, memory: SharedMemory | None = None, number: int = 0) -> None:
        super().__init__(file)
        self._shared = memory
        self._number = number

    def read_into(self, offset: int, out: memoryview) -> int:
        try:
            return super().read_into(offset, out)
        except FormatError:  # a part of it is damaged, perhaps another one
            return self._file.read_into(offset, out)

    def damaged_ranges(self) -> Sequence[tuple[range, FormatError]]:
        """Return the bytes that reads of the file found damaged."""
        return self._file.damaged_ranges()

    def _load(self) -> NDArray[np.uint8]:
        size = self.size
        shared, number = (SharedMemory([size]), 0) if self._shared is None else (self._shared, self._number)
        room = shared.room(number, size)
        if shared.has(number):
            return room
        for first in range(0, size, _STEP):
            part = room[first : first + _STEP]
            if self._file.read_into(first, part.data) != len(part):
                raise OSError(f"{self.name!r} was truncated while it was read into memory")
        shared.set_loaded(number)
        return room


def cache_files(files: Sequence[StoredFile], shared: Any = None) -> tuple[list[StoredFile], SharedMemory | None]:
    """Return the files as files in memory, and the memory that local files share.

    Args:
        files: The files; a compressed one gets separate memory when its size is known.
        shared: The result of `SharedMemory.shared` in the process that spawned this one.
    """
    local = [file for file in files if isinstance(file, LocalFile)]
    numbers: dict[StoredFile, int] = {file: number for number, file in enumerate(local)}
    memory = SharedMemory([file.size for file in local], shared) if local else None
    return [CachedFile(file, memory if file in numbers else None, numbers.get(file, 0)) for file in files], memory


class MappedFile(MemoryFile):
    """A memory-mapped local file: nothing is copied, and the file must not change meanwhile.

    If it is truncated while it is mapped, the operating system ends the process (SIGBUS).
    """

    def __init__(self, file: StoredFile) -> None:
        if not isinstance(file, LocalFile):
            raise ValueError(
                f"io='mmap' needs uncompressed local files, found {file!r}. Pass cache='memory' for other files."
            )
        super().__init__(file)
        self.local: str | None = file.local

    def _load(self) -> NDArray[np.uint8]:
        assert isinstance(self._file, LocalFile)  # the constructor checked it; for the type checker
        if not self.size:
            return np.zeros(0, np.uint8)
        descriptor = self._file.open_descriptor()
        try:
            return np.frombuffer(mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ), np.uint8)
        except OSError as error:
            remedy = "A mapping keeps one descriptor per file: raise the limit (ulimit -n), or pass another io=."
            raise OSError(error.errno, f"{error.strerror}. {remedy}", self.name) from error
        finally:
            os.close(descriptor)
