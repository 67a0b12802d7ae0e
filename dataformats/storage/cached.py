"""Files held in memory: read once into anonymous memory that forked workers share."""

from __future__ import annotations

import mmap
import threading

from dataformats.storage.files import StoredFile
from dataformats.storage.forks import after_fork

__all__ = ["CachedFile"]

_STEP = 8 * 2**20


class CachedFile(StoredFile):
    """A file that is read whole at its first use and answers from memory then.

    The memory is an anonymous shared mapping: children that are forked afterwards use the same pages; a process that
    is started otherwise reads the file again.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self.name = file.name
        self.identity = file.identity
        self._memory: mmap.mmap | None = None
        self._lock = threading.Lock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @property
    def size(self) -> int:  # type: ignore[override]  # that of the file, which a compressed one has to find out
        """Its bytes."""
        return self._file.size

    def read_into(self, offset: int, out: memoryview) -> int:
        n = max(0, min(len(out), self.size - offset))
        if n:
            out[:n] = memoryview(self._held())[offset : offset + n]
        return n

    def sibling(self, name: str) -> StoredFile | None:
        return self._file.sibling(name)

    def _held(self) -> mmap.mmap:
        with self._lock:
            if self._memory is None:
                memory = mmap.mmap(-1, self.size)
                view = memoryview(memory)
                for first in range(0, self.size, _STEP):
                    part = view[first : first + _STEP]
                    if self._file.read_into(first, part) != len(part):
                        raise OSError(f"{self.name!r} ended early while it was read into memory")
                self._memory = memory
            return self._memory
