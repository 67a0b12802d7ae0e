"""Files and folders on the local disk, and a bounded set of open descriptors."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from dataformats.errors import FormatError, TruncatedError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.folders import is_data

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows
    resource = None

__all__ = ["LocalFile", "LocalFolder", "borrow_descriptors", "max_open_files", "return_descriptors"]

_MAX_OPEN = 256
_FEW_OPEN = 4  # up to here the limit of the process is not queried: that costs as much as a read


class LocalFile(StoredFile):
    """A file on the local disk, read by position through a descriptor that all threads share."""

    def __init__(self, path: Path) -> None:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(f"{str(path)!r} is a folder, expected a file")
        if not stat.S_ISREG(info.st_mode):
            raise FormatError("not a regular file", path=str(path))
        self.name: str = str(path)
        self.local: Path | None = path
        self.size: int = info.st_size
        self.mtime_ns: int = info.st_mtime_ns
        self.identity: tuple[str, ...] = (str(info.st_size), str(info.st_mtime_ns))

    def read_into(self, offset: int, out: memoryview) -> int:
        done, descriptor = 0, None
        try:
            (descriptor,) = borrow_descriptors([self])
            while done < len(out):
                n = os.preadv(descriptor, [out[done:]], offset + done)
                if n == 0:
                    break
                done += n
            self._check_unchanged(os.fstat(descriptor))
        finally:
            if descriptor is not None:
                return_descriptors([self])
        if done < len(out) and offset + done < self.size:
            raise TruncatedError(
                "the file was truncated while it was open",
                path=self.name,
                offset_bytes=offset + done,
                expected=f"{self.size} bytes",
                found=f"{offset + done} bytes",
            )
        return done

    def sibling(self, name: str) -> StoredFile | None:
        path = Path(self.name).with_name(name)
        return LocalFile(path) if path.is_file() else None

    def release(self) -> None:
        _DESCRIPTORS.release(self)

    def folder(self) -> Folder:
        """Return the folder that the file lies in."""
        return LocalFolder(Path(self.name).parent)

    def open_descriptor(self) -> int:
        """Return a new descriptor of the file that was opened first.

        Raises:
            FormatError: The file was replaced or changed since.
        """
        descriptor = os.open(self.name, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC)
        try:
            self._check_unchanged(os.fstat(descriptor))
        except FormatError:
            os.close(descriptor)
            raise
        return descriptor

    def _check_unchanged(self, info: os.stat_result) -> None:
        # A file without links was deleted, or another file has its name.
        found = (str(info.st_size), str(info.st_mtime_ns)) if info.st_nlink else ("no such file",)
        if found != self.identity:
            raise FormatError(
                "the file was replaced or changed while it was open (size, time)",
                path=self.name,
                expected=self.identity,
                found=found,
                remedy="Open the dataset again.",
            )


class _Descriptors:
    """A bounded number of open descriptors; the least recently used one is closed first."""

    def __init__(self) -> None:
        # Reentrant: garbage collection may close a source in the middle of any of these methods.
        self._lock = threading.RLock()
        self._open: dict[LocalFile, list[int]] = {}  # file -> [descriptor, borrowers], least recently used first
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()
        for entry in self._open.values():
            entry[1] = 0  # the borrowing threads exist only in the parent

    def borrow(self, files: Sequence[LocalFile]) -> list[int]:
        """Return descriptors of files; they stay open until `give_back`.

        Raises:
            FormatError: A file was replaced or changed since it was opened first.
        """
        taken: list[int] = []
        with self._lock:
            for file in files:
                entry = self._open.pop(file, None)
                if entry is None:
                    try:
                        entry = self._opened(file)
                    except BaseException:
                        self.give_back(files[: len(taken)])
                        raise
                self._open[file] = entry
                entry[1] += 1
                taken.append(entry[0])
        return taken

    def _opened(self, file: LocalFile) -> list[int]:
        if len(self._open) >= _FEW_OPEN:
            self._close_spare()
        return [file.open_descriptor(), 0]

    def give_back(self, files: Sequence[LocalFile]) -> None:
        """Return the descriptors that `borrow` gave for these files."""
        with self._lock:
            for file in files:
                self._open[file][1] -= 1

    def _close_spare(self) -> None:
        for file in list(self._open)[: max(0, len(self._open) + 1 - max_open_files())]:
            self._close_unless_borrowed(file)

    def release(self, file: LocalFile) -> None:
        with self._lock:
            self._close_unless_borrowed(file)

    def _close_unless_borrowed(self, file: LocalFile) -> None:
        entry = self._open.get(file)
        if entry is not None and entry[1] == 0 and self._open.pop(file, None) is not None:
            os.close(entry[0])


def max_open_files() -> int:
    """Return how many descriptors may be open or borrowed: a quarter of the limit of the process, at most 256."""
    if resource is None:
        return _MAX_OPEN
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_OPEN if allowed < 0 else min(_MAX_OPEN, allowed // 4)


_DESCRIPTORS = _Descriptors()
borrow_descriptors: Callable[[Sequence[LocalFile]], list[int]] = _DESCRIPTORS.borrow
return_descriptors: Callable[[Sequence[LocalFile]], None] = _DESCRIPTORS.give_back


class LocalFolder(Folder):
    """A folder on the local disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name: str = str(path)

    def names(self) -> list[str]:
        with os.scandir(self._path) as entries:
            return sorted(entry.name for entry in entries if is_data(entry.name) and entry.is_file())

    def file(self, name: str) -> StoredFile:
        return LocalFile(self._path / name)

    def folders(self) -> list[str]:
        with os.scandir(self._path) as entries:
            return sorted(entry.name for entry in entries if is_data(entry.name) and entry.is_dir())

    def folder(self, name: str) -> Folder:
        return LocalFolder(self._path / name)

    @property
    def basename(self) -> str:
        return self._path.resolve().name

    def sibling(self, name: str) -> StoredFile | None:
        path = self._path.resolve().with_name(name)
        return LocalFile(path) if path.is_file() else None
