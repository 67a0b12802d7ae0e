"""A stored file as a file object of Python, for libraries that take one."""

from __future__ import annotations

import io

from dataformats.interfaces.stored_file import StoredFile


class FileObject(io.RawIOBase):
    """Reads a stored file, wherever it lies. Seekable; not thread-safe."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end: never allocates more than the file has."""
        found = self._file.pread(self._position, self._file.size if size < 0 else size)
        self._position += len(found)
        return found

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed wants any buffer
        out = memoryview(buffer).cast("B")
        length = max(0, min(len(out), self._file.size - self._position))
        n = self._file.read_into(self._position, out[:length])
        self._position += n
        return n
