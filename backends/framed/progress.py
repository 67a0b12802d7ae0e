"""Progress of the threads that build the indexes of a dataset."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile


class ScanProgress:
    """Adds up the bytes scanned, as stored on disk, over all files. Thread-safe.

    Args:
        report: Called with (bytes done, bytes in all), or `None`.
        files: All files.
    """

    def __init__(self, report: Callable[[int, int], None] | None, files: Sequence[StoredFile]) -> None:
        self._report = report
        self._total = sum(file.stored_size for file in files)
        self._done = 0
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def file(self, file: StoredFile) -> FileProgress:
        """Return the progress of one file, a context that counts the whole file as done at its end."""
        return FileProgress(self, file)

    def skip(self, file: StoredFile) -> None:
        """Count a whole file as done."""
        self.add(file.stored_size)

    def add(self, n_bytes: int) -> None:
        """Count `n_bytes` as done."""
        if self._report is None or n_bytes <= 0:
            return
        with self._lock:
            self._done += n_bytes
            self._report(self._done, self._total)


class FileProgress:
    """The progress of one file; its end reports all bytes that `add` has not reported."""

    def __init__(self, whole: ScanProgress, file: StoredFile) -> None:
        self._whole = whole
        self._left = file.stored_size
        # Positions in decompressed data do not say how much of the file is done.
        self._measured = not file.is_compressed

    def __enter__(self) -> FileProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._whole.add(self._left)

    def add(self, n_bytes: int) -> None:
        """Count `n_bytes` of the file, decompressed, as done."""
        if self._measured:
            n_bytes = min(n_bytes, self._left)
            self._left -= n_bytes
            self._whole.add(n_bytes)
