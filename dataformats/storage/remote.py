"""Files and folders behind fsspec file systems."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, MissingExtraError, UnknownNameError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.block_cache import BlockCache, FileRange
from dataformats.storage.disk_blocks import DiskBlocks
from dataformats.storage.folders import is_data
from dataformats.storage.range_requests import RangeRequest, get_ranges, patiently
from dataformats.storage.remote_errors import errors_as_os_error
from dataformats.storage.remote_names import beside, entry_name, is_http, parent_of

__all__ = [
    "FsspecFile",
    "FsspecFolder",
    "file_system",
    "is_local_system",
    "is_url",
    "keep_on_disk",
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
_TAGS = ("ETag", "etag", "blob_id", "created")  # `blob_id` of Hugging Face, `created` of files in memory
_VERSION_KEYS = (*_TAGS, "mtime", "LastModified", "last_modified", "Last-Modified")
_UNVERSIONED = itertools.count()
_CHECK_S = 1.0
_CONNECTIONS = 64
_DISK_BLOCK_BYTES = 256 * 2**10
_MEMORY_OF_DISK = 64 * 2**20
_SHORT_BYTES = 256 * 2**10
_SHORT_READS = BlockCache(16 * 2**20, 32 * 2**10)
"""The blocks of short reads of all remote files: headers, tables, and what detection looks at."""


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
    if {*schemes} & {"s3", "s3a"} and "config_kwargs" not in options:
        options = {**options, "config_kwargs": {"max_pool_connections": _CONNECTIONS}}  # else only ten at a time
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


class FsspecFile(StoredFile):
    """A file behind an fsspec file system, read by ranges. Short reads, as of headers, share a small cache of blocks.

    Args:
        fs: The file system.
        path: The file in it.
        info: What the file system has said of it; `None` asks for it.
        folder: Lists its siblings, in one request; `None` asks for each.

    Attributes:
        path: As given.
        is_versioned: True if no other file, and no other version of this one, has its name and identity.
        cache_key: Identifies its blocks; without a version, for this object alone.
        cache: The blocks that all reads go through, kept on the local disk as well; `None` if `open` asked for none.
    """

    cache: BlockCache | None = None

    def __init__(
        self, fs: Any, path: str, info: Mapping[str, Any] | None = None, folder: FsspecFolder | None = None
    ) -> None:
        self._system = _FileSystem(fs)
        self._folder = folder
        self.path = path
        self.name: str = str(fs.unstrip_protocol(path))
        if info is None or info.get("size") is None:  # the pages of an HTTP server list names without sizes
            info = self._info()
        if info.get("type") == "directory":
            raise IsADirectoryError(f"{self.name!r} is a folder, expected a file")
        if info.get("size") is None:
            what = "the server does not tell the size of the file"
            raise FormatError(what, path=self.name, remedy="Download the file, or put `simplecache::` before the URL.")
        self.size: int = int(info["size"])
        self.identity: tuple[str, ...] = _identity(info)
        # Paths in two archives, or on two hosts, may have one name: only some versions tell their contents apart.
        self.is_versioned: bool = (self.name.startswith("http") and len(self.identity) > 1) or _has_tag(info)
        self.cache_key: tuple[str, ...] = (self.name, *self.identity)
        if not self.is_versioned:
            self.cache_key += (str(next(_UNVERSIONED)),)
        self._checked = time.monotonic()

    @property
    def fs(self) -> Any:
        """The file system; in a forked child another one than in its parent."""
        return self._system.current

    def read_into(self, offset: int, out: memoryview) -> int:
        length = max(0, min(len(out), self.size - offset))
        if not length:
            return 0
        cache = self.cache or (_SHORT_READS if length <= _SHORT_BYTES else None)
        if cache is not None:
            cache.read([FileRange(self, offset, out[:length])])
            return length
        (answer,) = get_ranges(self.fs, [RangeRequest(self.path, self.name, offset, length)])
        if isinstance(answer, Exception):
            raise answer
        self.check_one_unchanged([self])
        out[:length] = answer
        return length

    @staticmethod
    def check_one_unchanged(files: Sequence[FsspecFile]) -> None:
        """Compare size and version of the file that was compared longest ago with those of its opening.

        Called after each read of some files. A file is compared at most once a second.

        Raises:
            FormatError: The file was replaced or changed.
        """
        file = min(files, key=lambda file: file._checked)
        if time.monotonic() - file._checked < _CHECK_S:
            return
        found = _identity(file._info(again=True))
        if found != file.identity:
            raise FormatError(
                "the file was replaced or changed while it was open",
                path=file.name,
                expected=file.identity,
                found=found,
                remedy="Open the dataset again.",
            )
        file._checked = time.monotonic()

    def _info(self, *, again: bool = False) -> Mapping[str, Any]:
        if again:
            self.fs.invalidate_cache(parent_of(self.fs, self.path))
        with errors_as_os_error(self.name):
            return dict(patiently(lambda: self.fs.info(self.path)))

    def folder(self) -> Folder:
        """Return the folder that the file lies in."""
        return FsspecFolder(self.fs, parent_of(self.fs, self.path))

    def sibling(self, name: str) -> StoredFile | None:
        if self._folder is not None and name not in self._folder.listing:
            return None
        return _file_or_none(self.fs, beside(self.fs, self.path, name))

    def sibling_bytes(self, name: str, limit: int) -> tuple[str, bytes] | None:
        if self._folder is not None and name not in self._folder.listing:
            return None
        return _bytes_or_none(self.fs, beside(self.fs, self.path, name), limit)


def keep_on_disk(files: Iterable[StoredFile], folder: str, limit_bytes: int) -> None:
    """Keep the blocks of these files in a folder of the local disk; reads go through it.

    Raises:
        ValueError: None of the files is behind a URL.
        OSError: The folder cannot be made.
    """
    remote = [file for file in (one.stored for one in files) if isinstance(file, FsspecFile)]
    if not remote:
        raise ValueError("cache='disk:PATH' is for files behind URLs, and these are not; leave it out")
    disk = DiskBlocks(Path(folder).expanduser(), limit_bytes)
    cache = BlockCache(_MEMORY_OF_DISK, _DISK_BLOCK_BYTES, disk)
    for file in remote:
        file.cache = cache


class _FileSystem:
    """A file system, made anew in a forked child if it has threads or connections, which a child does not have."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._process = os.getpid()

    @property
    def current(self) -> Any:
        if self._process != os.getpid():
            if getattr(self._fs, "async_impl", False):
                self._fs = type(self._fs)(*self._fs.storage_args, **self._fs.storage_options)
            self._process = os.getpid()
        return self._fs


def _identity(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the size of a file, and its version: the first that the file system tells, the same in `info` and `ls`."""
    version = next((str(info[key]).strip('"') for key in _VERSION_KEYS if info.get(key) is not None), None)
    return (str(info["size"]),) if version is None else (str(info["size"]), version)


def _has_tag(info: Mapping[str, Any]) -> bool:
    return any(info.get(key) is not None for key in _TAGS)


def _file_or_none(fs: Any, path: str) -> FsspecFile | None:
    """Return a file; `None` if it is missing, or if this may not be asked."""
    try:
        return FsspecFile(fs, path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return None


def _bytes_or_none(fs: Any, path: str, limit: int) -> tuple[str, bytes] | None:
    """Return name and content of a small file, by one request; `None` as `_file_or_none`."""
    name = str(fs.unstrip_protocol(path))
    try:
        with errors_as_os_error(name):
            content = bytes(patiently(lambda: fs.cat_file(path, start=0, end=limit + 1)))
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return None
    except OSError:  # of an empty object S3 sends no range
        content = b""
    if not 0 < len(content) <= limit:
        file = _file_or_none(fs, path)  # tells an empty file from an error, and names one that is too long
        return None if file is None else (file.name, file.read_all(limit))
    return name, content


class FsspecFolder(Folder):
    """A folder behind an fsspec file system."""

    def __init__(self, fs: Any, path: str) -> None:
        self._system = _FileSystem(fs)
        self._path = path.rstrip("/")
        self.name: str = str(fs.unstrip_protocol(path)).rstrip("/")

    @functools.cached_property
    def listing(self) -> dict[str, Mapping[str, Any]]:
        """The name of each file and folder in it, and what the file system says of it."""
        fs = self._system.current
        path = f"{self._path}/" if is_http(self._path) else self._path  # without the slash, servers redirect
        with errors_as_os_error(self.name):
            fs.invalidate_cache(self._path)
            entries = patiently(lambda: fs.ls(path, detail=True))
        named = {entry_name(self._path, entry["name"]): entry for entry in entries}
        return {name: named[name] for name in sorted(filter(None, named))}

    def names(self) -> list[str]:
        return self._names("file")

    def file(self, name: str) -> StoredFile:
        return FsspecFile(self._system.current, self._inside(name), self.listing.get(name), self)

    def _inside(self, name: str) -> str:
        return beside(self._system.current, f"{self._path}/_", name)

    def folders(self) -> list[str]:
        return self._names("directory")

    def _names(self, kind: str) -> list[str]:
        return [name for name, entry in self.listing.items() if entry["type"] == kind and is_data(name)]

    def folder(self, name: str) -> Folder:
        return FsspecFolder(self._system.current, self._inside(name))

    def sibling(self, name: str) -> StoredFile | None:
        fs = self._system.current
        return _file_or_none(fs, beside(fs, self._path, name))

    def sibling_bytes(self, name: str, limit: int) -> tuple[str, bytes] | None:
        fs = self._system.current
        return _bytes_or_none(fs, beside(fs, self._path, name), limit)
