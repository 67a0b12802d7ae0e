"""How far the threads are that build the indexes of a data set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["FileProgress", "Progress"]


class Progress:
    """Adds up what has been gone through, in bytes on the disk.

    Args:
        report: Called with (bytes done, bytes in all), or `None`.
        files: All files.
    """

    def __init__(self, report: Callable[[int, int], None] | None, files: Sequence[StoredFile]) -> None:
        self._report = report
        self._total = sum(_size(file) for file in files)
        self._done = 0
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def file(self, file: StoredFile) -> FileProgress:
        """Return the part of one file, a context."""
        return FileProgress(self, file)

    def skip(self, file: StoredFile) -> None:
        """Count a whole file as done."""
        self.add(_size(file))

    def add(self, n_bytes: int) -> None:
        """Count so many bytes as done."""
        if self._report is None or n_bytes <= 0:
            return
        with self._lock:
            self._done += n_bytes
            self._report(self._done, self._total)


class FileProgress:
    """The part of one file; what was not told on the way is told at its end."""

    def __init__(self, whole: Progress, file: StoredFile) -> None:
        self._whole = whole
        self._left = _size(file)
        # Positions in decompressed data say nothing about how much of the file is done.
        self._measured = not isinstance(file, DecompressedFile)

    def __enter__(self) -> FileProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._whole.add(self._left)

    def add(self, n_bytes: int) -> None:
        """Count so many bytes of the file, decompressed, as done."""
        if self._measured:
            n_bytes = min(n_bytes, self._left)
            self._left -= n_bytes
            self._whole.add(n_bytes)


def _size(file: StoredFile) -> int:
    return file.compressed.size if isinstance(file, DecompressedFile) else file.size
