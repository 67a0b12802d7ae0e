"""Files and folders that are not on the local disk: behind an fsspec file system, or behind a path object."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from dataformats.errors import DataFormatsError, MissingExtraError, TruncatedError, UnknownNameError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.folders import is_data

__all__ = [
    "FsspecFile",
    "FsspecFolder",
    "ObjectFile",
    "ObjectFolder",
    "errors_as_os_error",
    "file_system",
    "is_local_system",
    "is_url",
]

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "hdfs": "arrow"}  # scheme to the extra that serves it
_PACKAGES = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
}


def is_url(text: str) -> bool:
    """Return True for `scheme://...`."""
    return "://" in text


def file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Args:
        url: One URL, or several chained with `::`.
        options: Its `storage_options`.

    Raises:
        UnknownNameError: No file system has the scheme.
        MissingExtraError: The package for the scheme is not installed.
        OSError: The file system refuses the URL, or cannot be reached.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations, registry

    schemes = [part.partition("://")[0] for part in url.split("::") if is_url(part)]
    known = {*registry, *known_implementations}
    for scheme in schemes:
        if scheme not in known:
            shown = get_close_matches(scheme, known) or {"file", *_EXTRAS, *_PACKAGES}  # there are some 70
            remedy = "Pass a path, or a URL with a scheme that fsspec knows"
            raise UnknownNameError("URL scheme", name=scheme, known=shown, remedy=remedy)
    try:
        with errors_as_os_error(url):
            fs, path = url_to_fs(url, **options)
    except ImportError as error:
        extra = next((_EXTRAS[scheme] for scheme in schemes if scheme in _EXTRAS), "")
        package = next((_PACKAGES[scheme] for scheme in schemes if scheme in _PACKAGES), "")
        raise MissingExtraError(f"{url!r} ({error})", extra=extra, package=package) from error
    return fs, path


def is_local_system(fs: Any) -> bool:
    """Return True for the fsspec file system of `file://`."""
    return "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))


@contextmanager
def errors_as_os_error(name: str) -> Iterator[None]:
    """Raise the errors of a file system as `OSError`: those of HTTP clients and archives are of their own types."""
    try:
        yield
    except FileNotFoundError as error:
        if error.errno is not None:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
    except (OSError, ImportError, DataFormatsError, MemoryError):
        raise
    except Exception as error:
        raise OSError(f"{name!r}: {type(error).__name__}: {error}") from error


class FsspecFile(StoredFile):
    """A file behind an fsspec file system, read by ranges."""

    def __init__(self, fs: Any, path: str) -> None:
        with errors_as_os_error(path):
            info = fs.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(f"{fs.unstrip_protocol(path)!r} is a folder, expected a file")
        self._fs = fs
        self._path = path
        self.name: str = str(fs.unstrip_protocol(path))
        self.size: int = int(info["size"] or 0)
        version = [info.get(key) for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")]
        self.identity: tuple[str, ...] = (str(self.size), *(str(part) for part in version if part is not None))

    def read_into(self, offset: int, out: memoryview) -> int:
        with errors_as_os_error(self.name):
            data = self._fs.cat_file(self._path, start=offset, end=offset + len(out)) if len(out) else b""
        out[: len(data)] = data
        if len(data) < len(out) and offset + len(data) < self.size:
            raise TruncatedError("the file was truncated while it was open", path=self.name, expected=self.size)
        return len(data)

    def folder(self) -> Folder:
        """Return the folder that the file lies in."""
        return FsspecFolder(self._fs, self._fs._parent(self._path))

    def sibling(self, name: str) -> StoredFile | None:
        path = f"{self._fs._parent(self._path)}/{name}"
        return FsspecFile(self._fs, path) if self._fs.isfile(path) else None


class FsspecFolder(Folder):
    """A folder behind an fsspec file system."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path.rstrip("/")
        self.name: str = str(fs.unstrip_protocol(path))

    def names(self) -> list[str]:
        return self._entries("file")

    def file(self, name: str) -> StoredFile:
        return FsspecFile(self._fs, f"{self._path}/{name}")

    def folders(self) -> list[str]:
        return self._entries("directory")

    def folder(self, name: str) -> Folder:
        return FsspecFolder(self._fs, f"{self._path}/{name}")

    def _entries(self, kind: str) -> list[str]:
        with errors_as_os_error(self.name):
            entries = self._fs.ls(self._path, detail=True)
        names = [entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == kind]
        return sorted(name for name in names if is_data(name))

    def sibling(self, name: str) -> StoredFile | None:
        path = f"{self._fs._parent(self._path)}/{name}"
        return FsspecFile(self._fs, path) if self._fs.isfile(path) else None


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

    def sibling(self, name: str) -> StoredFile | None:
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

    def sibling(self, name: str) -> StoredFile | None:
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
