"""Open descriptors of files: a bounded number, and few if the process may open few more."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Protocol, TypeVar

from dataformats.fork_hooks import after_fork

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

_MAX_OPEN = 256
_MAX_UNCHECKED = 4  # up to here the limit of the process is not queried: that costs as much as a read
_RESERVED = 16  # left to the rest of the process, if possible: an import needs one, too
_WAITS_S = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *[0.1] * 9)  # other threads hold theirs for a read

T = TypeVar("T")


class Openable(Protocol):
    """A file that a descriptor can be opened of."""

    def open_descriptor(self) -> int:
        """Return a new descriptor."""
        ...


class _Descriptors:
    """A bounded number of open descriptors; the least recently used one is closed first. Thread-safe.

    Files are known by their `id`, so that they are not kept alive: each has to call `forget` when it is collected.
    """

    def __init__(self) -> None:
        # Reentrant: garbage collection may close a file in the middle of any of these methods.
        self._lock = threading.RLock()
        self._open: dict[int, list[int]] = {}  # id of a file -> [descriptor, borrowers], least recently used first
        self._is_short = False  # True while few descriptors are left to the process: then none is kept open
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()
        for entry in self._open.values():
            entry[1] = 0  # the borrowing threads exist only in the parent

    def borrow(self, files: Sequence[Openable]) -> list[int]:
        """Return descriptors of files; they stay open until `give_back`.

        Raises:
            FormatError: A file was replaced or changed since it was opened first.
            OSError: The process may not open as many files; for one file, only if that lasts for a second.
        """
        try:
            return self._borrowed(files)
        except OSError as error:
            if not is_shortage(error):
                raise
        if len(files) == 1:
            return open_patiently(lambda: self._borrowed(files))
        self.close_spare()
        return self._borrowed(files)  # no waiting: another thread may hold some and wait for more

    def borrow_one(self, file: Openable) -> list[int]:
        """Return the entry of a file: its descriptor, and how many borrow it. It stays open until `give_back_one`.

        Takes half the time of `borrow`, for reads of one record.

        Raises:
            FormatError: The file was replaced or changed since it was opened first.
            OSError: The process may not open as many files.
        """
        key = id(file)
        with self._lock:
            entry = self._open.pop(key, None)
            if entry is None:
                entry = self._opened(file)
            self._open[key] = entry
            entry[1] += 1
        return entry

    def give_back_one(self, file: Openable, entry: list[int]) -> None:
        """Return the descriptor that `borrow_one` gave."""
        with self._lock:
            entry[1] -= 1
            if self._is_short:
                self._close_unless_borrowed(id(file))

    def _borrowed(self, files: Sequence[Openable]) -> list[int]:
        taken: list[int] = []
        with self._lock:
            for file in files:
                try:
                    taken.append(self.borrow_one(file)[0])
                except BaseException:
                    self.give_back(files[: len(taken)])
                    raise
        return taken

    def _opened(self, file: Openable) -> list[int]:
        if len(self._open) >= _MAX_UNCHECKED:
            for other in list(self._open)[: max(0, len(self._open) + 1 - max_open_files())]:
                self._close_unless_borrowed(other)
        descriptor = file.open_descriptor()  # the lowest free number
        self._is_short = descriptor >= _RESERVED and 0 <= _limit() <= descriptor + _RESERVED
        if self._is_short:
            self.close_spare()
        return [descriptor, 0]

    def give_back(self, files: Sequence[Openable]) -> None:
        """Return the descriptors that `borrow` gave for these files."""
        with self._lock:
            for file in files:
                self._open[id(file)][1] -= 1
                if self._is_short:
                    self._close_unless_borrowed(id(file))

    def close_spare(self) -> None:
        """Close all that are not borrowed."""
        with self._lock:
            for file in list(self._open):
                self._close_unless_borrowed(file)

    def release(self, file: Openable) -> None:
        """Close the descriptor of a file unless it is borrowed."""
        with self._lock:
            self._close_unless_borrowed(id(file))

    forget = release  # who borrows a descriptor keeps its file alive

    def _close_unless_borrowed(self, file: int, close: Callable[[int], None] = os.close) -> None:
        entry = self._open.get(file)
        if entry is not None and entry[1] == 0 and self._open.pop(file, None) is not None:
            # This uses no names of the module: another library may drop a source after Python has cleared them.
            try:  # noqa: SIM105
                close(entry[0])
            except OSError:  # it was only read from, and Linux frees it in any case
                pass


def is_shortage(error: OSError) -> bool:
    """Return True if a process, or the system, may open no more files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def open_patiently(open_file: Callable[[], T]) -> T:
    """Call a function that opens a file, and again if there are too few descriptors, after the spare ones were closed.

    Raises:
        OSError: The function raised it. After a second without a free descriptor, it names the limit and the remedy.
    """
    shortage = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    for wait_s in _WAITS_S:
        try:
            return open_file()
        except OSError as error:
            if not is_shortage(error):
                raise
            shortage = error
        DESCRIPTORS.close_spare()
        time.sleep(wait_s)
    limit = "" if resource is None else f"; this process may open {_limit()}"
    remedy = "Raise the limit (ulimit -n) or close files"
    raise OSError(shortage.errno, f"{shortage.strerror}{limit}. {remedy}", shortage.filename) from shortage


def max_open_files() -> int:
    """Return how many descriptors may be open or borrowed: a quarter of the limit of the process, at most 256."""
    allowed = _limit()
    return _MAX_OPEN if allowed < 0 else min(_MAX_OPEN, allowed // 4)


def _limit() -> int:
    return -1 if resource is None else int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


DESCRIPTORS = _Descriptors()
"""The descriptors of all files of this process."""
