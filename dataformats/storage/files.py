"""Files and folders on the local disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.descriptors import DESCRIPTORS, open_patiently
from dataformats.storage.links import LinkBounds
from dataformats.storage.selected_files import is_data

_T = TypeVar("_T")


class LocalFile(StoredFile):
    """A file on the local disk, read by position through a descriptor that all threads share.

    Args:
        path: The path.
        links: Where the file may lead if it is a link; `None`: anywhere.

    Attributes:
        links: Where files beside it may lead if they are links; `None`: anywhere.
    """

    links: LinkBounds | None = None

    def __init__(self, path: str | Path, links: LinkBounds | None = None) -> None:
        name, info = str(path), os.stat(path) if links is None else os.lstat(path)
        if links is not None:
            self.links = links
            if stat.S_ISLNK(info.st_mode):
                links.check(path)
                info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(f"{name!r} is a folder, expected a file")
        if not stat.S_ISREG(info.st_mode):
            raise FormatError("not a regular file", path=name)
        self._set(name, info.st_size, info.st_mtime_ns)

    def _set(self, name: str, size: int, mtime_ns: int) -> None:
        self.name: str = name
        self.local: str | None = name
        self.size: int = size
        self.mtime_ns: int = mtime_ns
        self.identity: tuple[str, ...] = (str(size), str(mtime_ns))

    @classmethod
    def known(cls, name: str, size: int, mtime_ns: int) -> LocalFile:
        """Return a file without looking at it: it is compared with this size and time when it is read."""
        file = cls.__new__(cls)
        file._set(name, size, mtime_ns)
        return file

    def read_into(self, offset: int, out: memoryview) -> int:
        done = self._read(lambda descriptor: _fill(descriptor, offset, out))
        self._check_end(offset, done, len(out))
        return done

    def pread(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size - offset))
        found = self._read(lambda descriptor: os.pread(descriptor, length, offset))
        return found if len(found) == length else super().pread(offset, length)

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        wanted = [(offset, max(0, min(length, self.size - offset))) for offset, length in ranges]
        found = self._read(lambda descriptor: [os.pread(descriptor, n, offset) for offset, n in wanted])
        whole = zip(found, wanted, strict=True)
        return [data if len(data) == n else self.pread(offset, n) for data, (offset, n) in whole]

    def _read(self, read: Callable[[int], _T]) -> _T:
        """Return what `read` does with a descriptor of the file, if the file is as it was opened."""
        descriptor = None
        try:
            (descriptor,) = DESCRIPTORS.borrow([self])
            found = read(descriptor)
            self._check_unchanged(os.fstat(descriptor))
        finally:
            if descriptor is not None:
                DESCRIPTORS.give_back([self])
        return found

    def _check_end(self, offset: int, done: int, length: int) -> None:
        if done < length and offset + done < self.size:
            raise TruncatedError(
                "the file was truncated while it was open",
                path=self.name,
                offset_bytes=offset + done,
                expected=f"{self.size} bytes",
                found=f"{offset + done} bytes",
            )

    def file_beside(self, name: str) -> StoredFile | None:
        path = Path(self.name).with_name(name)
        return LocalFile(path, self.links) if os.path.isfile(path) else None

    def check_links_below(self, folder: str) -> None:
        if self.links is not None:
            self.links.check_below(folder)

    def release(self) -> None:
        DESCRIPTORS.release(self)

    def __del__(self, forget: Callable[[LocalFile], None] = DESCRIPTORS.forget) -> None:
        forget(self)

    def folder(self) -> Folder:
        """Return the folder that the file lies in."""
        return LocalFolder(Path(self.name).parent, self.links)

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

    def check_unchanged(self) -> None:
        """Raise the error of `open_descriptor` if the file was replaced or changed, for libraries that open it."""
        self._check_unchanged(os.stat(self.name))

    def _check_unchanged(self, info: os.stat_result) -> None:
        # A file without links was deleted, or another file has its name.
        found = (str(info.st_size), str(info.st_mtime_ns)) if info.st_nlink else ("no such file",)
        if found != self.identity:
            raise FormatError(
                "the file was replaced or changed while it was open",
                path=self.name,
                expected=_state(self.identity),
                found=_state(found),
                remedy="Open the dataset again.",
            )


def _fill(descriptor: int, offset: int, out: memoryview) -> int:
    done = 0
    while done < len(out) and (n := os.preadv(descriptor, [out[done:]], offset + done)):
        done += n
    return done


def _state(identity: tuple[str, ...]) -> str:
    return " bytes, written at ".join(identity) + (" ns" if len(identity) > 1 else "")


def _is_file(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(entry) if entry.is_symlink() else entry.is_file()  # a link may lead in a circle


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()


class LocalFolder(Folder):
    """A folder on the local disk, which is listed once.

    Args:
        path: The path.
        links: Where links in it may lead; `None`: anywhere.
        n_links: How many links to folders its path has, behind the folder that the caller named.
    """

    def __init__(self, path: Path, links: LinkBounds | None = None, n_links: int = 0) -> None:
        self._path = path
        self.links: LinkBounds | None = links
        self._n_links = n_links
        self.name: str = str(path)
        self._prefix = "" if self.name == "." else os.path.join(path, "")
        self._names: list[str] | None = None

    def names(self) -> list[str]:
        if self._names is None:
            with open_patiently(lambda: os.scandir(self._path)) as entries:
                self._names = sorted(entry.name for entry in entries if is_data(entry.name) and _is_file(entry))
        return [*self._names]

    def file(self, name: str) -> StoredFile:
        return LocalFile(self._prefix + name, self.links)

    def folders(self) -> list[str]:
        with open_patiently(lambda: os.scandir(self._path)) as entries:
            return sorted(entry.name for entry in entries if is_data(entry.name) and _is_folder(entry))

    def folder(self, name: str) -> Folder:
        path, n_links = self._path / name, self._n_links
        if self.links is not None and path.is_symlink():
            self.links.check(path, n_links)
            n_links += 1
        return LocalFolder(path, self.links, n_links)

    def parent(self) -> Folder:
        path = self._path.resolve().parent
        return LocalFolder(path, None if self.links is None else LinkBounds(path))

    def has(self, name: str) -> bool:
        return os.path.lexists(self._prefix + name)

    @property
    def basename(self) -> str:
        return self._path.resolve().name

    def file_beside(self, name: str) -> StoredFile | None:
        path = self._path.resolve().with_name(name)
        links = None if self.links is None else LinkBounds(path.parent)
        return LocalFile(path, links) if os.path.isfile(path) else None
