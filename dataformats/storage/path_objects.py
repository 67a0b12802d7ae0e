"""Files and folders behind path objects, which have `open`, `/` and `exists`."""

from __future__ import annotations

import os
import threading
from typing import Any

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.selected_files import is_data


class ObjectFile(StoredFile):
    """A file behind a path object that has `open`, `/` and `exists`."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self.name: str = str(path)
        self._lock = threading.Lock()
        self._handle: Any = path.open("rb")
        self.size: int = int(self._handle.seek(0, os.SEEK_END))
        self.identity: tuple[str, ...] = (str(self.size),)
        after_fork(self, "_reopen")

    def _reopen(self) -> None:
        self._lock = threading.Lock()
        self._handle = None  # its file position is shared with the parent process

    def release(self) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.close()
            self._handle = None

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if self._handle is None:
                self._handle = self._path.open("rb")
            self._handle.seek(offset)
            data = self._handle.read(len(out))
        out[: len(data)] = data
        return len(data)

    def file_beside(self, name: str) -> StoredFile | None:
        return _beside(self._path, name)

    def folder(self) -> Folder | None:
        """Return the folder of the file; `None` if the path object has no `parent`."""
        parent = getattr(self._path, "parent", None)
        return None if parent is None else ObjectFolder(parent)


class ObjectFolder(Folder):
    """A folder behind a path object that has `glob` and `/`."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self.name: str = str(path)

    def names(self) -> list[str]:
        return self._entries(folders=False)

    def file(self, name: str) -> StoredFile:
        return ObjectFile(self._path / name)

    def folders(self) -> list[str]:
        return self._entries(folders=True)

    def folder(self, name: str) -> Folder:
        return ObjectFolder(self._path / name)

    def parent(self) -> Folder | None:
        parent = getattr(self._path, "parent", None)
        return None if parent is None else ObjectFolder(parent)

    def has(self, name: str) -> bool:
        return bool((self._path / name).exists())

    def file_beside(self, name: str) -> StoredFile | None:
        return _beside(self._path, name)

    def _entries(self, *, folders: bool) -> list[str]:
        entries = [entry for entry in self._path.glob("*") if _is_file(entry) != folders]
        names = (str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries)
        return sorted(name for name in names if is_data(name))


def _beside(path: Any, name: str) -> StoredFile | None:
    """Return the file `name` beside a path object; `None` if it does not exist or the path has no `parent`."""
    parent = getattr(path, "parent", None)
    there = None if parent is None else parent / name
    return ObjectFile(there) if there is not None and there.exists() else None


def _is_file(path: Any) -> bool:
    check = getattr(path, "is_file", None) or getattr(path, "isfile", None)
    return bool(check()) if check else True
