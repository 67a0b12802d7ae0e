"""Files in memory: read once into anonymous memory that workers share, or mapped as they lie on the disk."""

from __future__ import annotations

import mmap
import os
import threading
from abc import abstractmethod
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.storage.files import Folder, LocalFile, StoredFile
from dataformats.storage.forks import after_fork

__all__ = ["CachedFile", "MappedFile", "MemoryFile"]

_STEP = 8 * 2**20


class MemoryFile(StoredFile):
    """A file whose bytes are in memory, from its first use on."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self.name = file.name
        self.identity = file.identity
        self._memory: NDArray[np.uint8] | None = None
        self._lock = threading.Lock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @property
    def size(self) -> int:  # type: ignore[override]  # that of the file, which a compressed one has to find out
        """Its bytes."""
        return self._file.size

    @property
    def memory(self) -> NDArray[np.uint8]:
        """uint8[size], the bytes; the first use brings them in."""
        with self._lock:
            if self._memory is None:
                self._memory = self._bring_in()
            return self._memory

    @abstractmethod
    def _bring_in(self) -> NDArray[np.uint8]:
        """Return the bytes of the file; called once, under a lock."""

    def read_into(self, offset: int, out: memoryview) -> int:
        n = max(0, min(len(out), self.size - offset))
        if n:
            out[:n] = self.memory.data[offset : offset + n]
        return n

    def sibling(self, name: str) -> StoredFile | None:
        return self._file.sibling(name)

    def folder(self) -> Folder | None:
        """Return the folder that the file lies in."""
        return self._file.folder()


class CachedFile(MemoryFile):
    """A file that is read whole at its first use and answers from memory then.

    The memory is anonymous and shared: children that are forked afterwards use the same pages, and so do processes
    that multiprocessing spawns with a source as an argument (Linux; elsewhere these read the file again).
    """

    def __init__(self, file: StoredFile) -> None:
        super().__init__(file)
        self._descriptor: int | None = None

    def _bring_in(self) -> NDArray[np.uint8]:
        mapping = self._anonymous(self.size)
        view = memoryview(mapping)
        for first in range(0, self.size, _STEP):
            part = view[first : first + _STEP]
            if self._file.read_into(first, part) != len(part):
                raise OSError(f"{self.name!r} ended early while it was read into memory")
        return np.frombuffer(mapping, np.uint8)[: self.size]

    def _anonymous(self, size: int) -> mmap.mmap:
        if not hasattr(os, "memfd_create") or not size:
            return mmap.mmap(-1, max(1, size))
        self._descriptor = os.memfd_create("dataformats", os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, size)
        return mmap.mmap(self._descriptor, size)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            os.close(self._descriptor)  # type: ignore[arg-type]  # it is not None

    # ---- sharing with processes that are spawned

    def shared(self) -> Any:
        """Return what gives the memory to the process that multiprocessing is spawning, to be pickled; or `None`."""
        if get_spawning_popen() is None:
            return None
        self.memory.size  # noqa: B018  # brings it in, so that no worker has to
        return None if self._descriptor is None else reduction.DupFd(self._descriptor)

    def adopt(self, shared: Any) -> None:
        """Take the memory that `shared` of the same file gave in the process that spawned this one."""
        descriptor: int = shared.detach()
        os.set_inheritable(descriptor, False)
        if os.fstat(descriptor).st_size != self.size:
            os.close(descriptor)
            return  # the file has changed; the fingerprint will tell
        self._descriptor = descriptor
        self._memory = np.frombuffer(mmap.mmap(descriptor, self.size), np.uint8)


class MappedFile(MemoryFile):
    """A local file that is mapped: nothing is copied into memory of ours, and nothing may change the file.

    Where it is cut short while it is mapped, the operating system ends the process (SIGBUS).
    """

    def __init__(self, file: StoredFile) -> None:
        if not isinstance(file, LocalFile):
            raise ValueError(f"io='mmap' needs uncompressed local files, found {file!r}; cache='memory' takes any file")
        super().__init__(file)
        self.local = file.local

    def _bring_in(self) -> NDArray[np.uint8]:
        assert isinstance(self._file, LocalFile)  # the constructor saw to it; for the type checker
        if not self.size:
            return np.zeros(0, np.uint8)
        descriptor = self._file.open_descriptor()
        try:
            return np.frombuffer(mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ), np.uint8)
        finally:
            os.close(descriptor)
