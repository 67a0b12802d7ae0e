"""Files and folders behind fsspec file systems."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote.block_cache import BlockCache, FileRange
from dataformats.storage.remote.checked_requests import RangeRequest, changed_error
from dataformats.storage.remote.disk_blocks import DiskBlocks
from dataformats.storage.remote.errors import raise_as_os_error
from dataformats.storage.remote.names import entry_name, is_http, parent_of, path_beside, shown_url
from dataformats.storage.remote.range_requests import first_bytes, get_ranges, retry_transient
from dataformats.storage.remote.systems import CurrentSystem, is_copy
from dataformats.storage.remote.versions import Versions, has_tag, identity_of
from dataformats.storage.selected_files import is_data
from dataformats.storage.threads import concurrent_map

_UNVERSIONED = itertools.count()
_SMALL_BYTES = 2**20
_DISK_BLOCK_BYTES = 256 * 2**10
_MEMORY_OF_DISK = 64 * 2**20
_SHORT_BYTES = 256 * 2**10
_SHORT_READS = BlockCache(16 * 2**20, 32 * 2**10)
"""The blocks of short reads of all remote files: headers, tables, and what detection looks at."""


class FsspecFile(StoredFile):
    """A file behind an fsspec file system, read by ranges. Short reads, as of headers, share a small cache of blocks.

    Args:
        fs: The file system.
        path: The file in it.
        info: The file system's description of it; `None` asks for it.
        folder: Lists its siblings, in one request; `None` asks for each.
        versions: The versions of all files of the listing that `info` is from; `None`: this file asks for its own.

    Attributes:
        path: The path in the file system.
        is_versioned: True if no other file, and no other version of this one, has its name and identity.
        cache_key: Identifies its blocks; without a version, for this object alone.
        disk: Keeps its blocks on the local disk; `None` if `open` asked for no such cache.
        cache: The blocks that reads go through that have no other cache, if there is a disk.
    """

    disk: DiskBlocks | None = None
    cache: BlockCache | None = None

    def __init__(
        self,
        fs: Any,
        path: str,
        info: Mapping[str, Any] | None = None,
        folder: FsspecFolder | None = None,
        versions: Versions | None = None,
    ) -> None:
        self._system = CurrentSystem(fs)
        self._folder = folder
        self.path = path
        url = str(fs.unstrip_protocol(path))
        self.name: str = shown_url(url)
        if info is None or info.get("size") is None:  # the pages of an HTTP server list names without sizes
            info, versions = self._info(), None
        if info.get("type") == "directory":
            raise IsADirectoryError(f"{self.name!r} is a folder, expected a file")
        if info.get("size") is None:
            what = "the server does not tell the size of the file"
            raise FormatError(what, path=self.name, remedy="Download the file, or put `simplecache::` before the URL.")
        self.size: int = int(info["size"])
        self.identity: tuple[str, ...] = identity_of(info)
        self._tag: str | None = info.get("ETag")
        self._modified: str | None = None if self._tag else info.get("Last-Modified")
        # Paths in two archives, or on two hosts, may have one name: only some versions tell their contents apart.
        # A copy that `simplecache::` keeps may be of an earlier version than the one that the server tells.
        self.has_name: bool = not is_copy(fs)
        tells = (is_http(self.name) and len(self.identity) > 1) or has_tag(info)
        self.is_versioned: bool = self.has_name and tells
        self.cache_key: tuple[str, ...] = (url, *self.identity)
        if not self.is_versioned:
            self.cache_key += (str(next(_UNVERSIONED)),)
        self._versions = versions or Versions(self._version)

    @property
    def fs(self) -> Any:
        """The file system; in a forked child another one than in its parent."""
        return self._system.current

    @property
    def reopenable(self) -> Any:
        """The file as `open` takes it; the name lacks the secrets of the URL."""
        from fsspec.core import OpenFile

        return OpenFile(self.fs, self.path)

    def request(self, offset: int, length: int) -> RangeRequest:
        """Return the request of a range that lies within the file, of this version of it."""
        return RangeRequest(self.path, self.name, offset, length, self.size, self._tag, self._modified)

    def read_into(self, offset: int, out: memoryview) -> int:
        length = max(0, min(len(out), self.size - offset))
        self._fill([FileRange(self, offset, out[:length])])
        return length

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        outs = [bytearray(max(0, min(length, self.size - offset))) for offset, length in ranges]
        self._fill([FileRange(self, offset, memoryview(out)) for (offset, _), out in zip(ranges, outs, strict=True)])
        return [bytes(out) for out in outs]

    def _fill(self, ranges: Sequence[FileRange]) -> None:
        """Fill the memory of each range; the file must have all its bytes."""
        wanted = [part for part in ranges if len(part.out)]
        if not wanted:
            return
        is_short = sum(len(part.out) for part in wanted) <= _SHORT_BYTES
        cache = (READ_CONTEXT.cache if is_short else None) or self.cache or (_SHORT_READS if is_short else None)
        if cache is not None:
            cache.read(wanted)
            return
        requests = [self.request(part.offset, len(part.out)) for part in wanted]
        for part, answer in zip(wanted, get_ranges(self.fs, requests), strict=True):
            if isinstance(answer, Exception):
                raise answer
            part.out[:] = answer
        self.check_unchanged([self])

    @staticmethod
    def check_unchanged(files: Sequence[FsspecFile]) -> None:
        """Check that size and version are unchanged since `open`, as far as the server has reported them.

        Called after each read of these files. The server is asked at most once a second, and less often if that takes
        long: for all files of a folder that was opened, or for one other file, the one that was compared longest ago.

        Raises:
            FormatError: A file was replaced or changed.
            OSError: A file is missing now, or the server does not answer.
        """
        min((file._versions for file in files), key=lambda versions: versions.asked).update()
        for file in files:
            if file._versions.found.get(file.path, file.identity) != file.identity:
                file._check_unchanged()

    def _version(self) -> dict[str, tuple[str, ...]]:
        return {self.path: identity_of(self._info(again=True))}

    def _check_unchanged(self) -> None:
        found = identity_of(self._info(again=True))
        if found != self.identity:
            raise changed_error(self.name, self.identity, found)

    def _info(self, *, again: bool = False) -> Mapping[str, Any]:
        if again:
            self.fs.invalidate_cache(parent_of(self.fs, self.path))
        with raise_as_os_error(self.name):
            return dict(retry_transient(lambda: self.fs.info(self.path)))

    def folder(self) -> Folder:
        """Return the folder that the file lies in."""
        return self._folder or FsspecFolder(self.fs, parent_of(self.fs, self.path))

    def file_beside(self, name: str) -> StoredFile | None:
        if self._folder is not None and name not in self._folder.listing:
            return None
        return _file_or_none(self.fs, path_beside(self.fs, self.path, name))

    def bytes_beside(self, name: str, limit: int) -> tuple[str, bytes] | None:
        if self._folder is not None and name not in self._folder.listing:
            return None
        return _bytes_or_none(self.fs, path_beside(self.fs, self.path, name), limit)


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
    cache = BlockCache(_MEMORY_OF_DISK, _DISK_BLOCK_BYTES)
    for file in remote:
        file.disk, file.cache = disk, cache


def _file_or_none(fs: Any, path: str) -> FsspecFile | None:
    """Return a file; `None` if it is missing, or if this may not be asked."""
    try:
        return FsspecFile(fs, path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return None


def _bytes_or_none(fs: Any, path: str, limit: int) -> tuple[str, bytes] | None:
    """Return name and content of a small file, by one request; `None` as `_file_or_none`."""
    name = shown_url(fs.unstrip_protocol(path))
    try:
        with raise_as_os_error(name):
            content = first_bytes(fs, path, name, limit + 1)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return None
    except OSError:
        if _file_or_none(fs, path) is not None:
            raise
        return None  # a file beside a bucket
    if not 0 < len(content) <= limit:
        file = _file_or_none(fs, path)  # tells an empty file from an error, and names one that is too long
        return None if file is None else (file.name, file.read_all(limit))
    return name, content


class FsspecFolder(Folder):
    """A folder behind an fsspec file system."""

    def __init__(self, fs: Any, path: str) -> None:
        self._system = CurrentSystem(fs)
        self._path = path.rstrip("/")
        self._listing: dict[str, Mapping[str, Any]] | None = None
        self._read_ahead: dict[str, tuple[str, bytes] | None] = {}
        self._folders: dict[str, FsspecFolder] = {}  # each is listed once, however many formats look into it
        self.name: str = shown_url(fs.unstrip_protocol(path)).rstrip("/")

    @property
    def listing(self) -> dict[str, Mapping[str, Any]]:
        """The name of each file and folder in it, with its description by the file system."""
        if self._listing is None:
            begin = time.monotonic()
            listing = self._list()
            self._versions = Versions(self._identities, time.monotonic() - begin)
            self._listing = listing  # last: other threads take both if it is there
        return self._listing

    def list_with(self, suffix: str) -> bool:
        """List the folder, and read the small file beside it with this suffix, at once; return False if it is empty."""
        name = self.basename + suffix
        with ThreadPoolExecutor(1) as thread:
            beside = thread.submit(self.bytes_beside, name, _SMALL_BYTES)
            is_there = bool(self.listing)
            with suppress(OSError, FormatError):  # a caller that needs the file reads it again
                self._read_ahead[name] = beside.result()
        return is_there

    def _identities(self) -> dict[str, tuple[str, ...]]:
        found = self._list()
        return {self._inside(name): identity_of(found[name]) if name in found else () for name in self.listing}

    def _list(self) -> dict[str, Mapping[str, Any]]:
        fs = self._system.current
        path = f"{self._path}/" if is_http(self._path) else self._path  # servers redirect a path without the slash
        with raise_as_os_error(self.name):
            fs.invalidate_cache(self._path)
            entries = retry_transient(lambda: fs.ls(path, detail=True))
        named = {entry_name(self._path, entry["name"]): entry for entry in entries}
        return {name: named[name] for name in sorted(filter(None, named))}

    def names(self) -> list[str]:
        return self._names("file")

    def file(self, name: str) -> StoredFile:
        info = self.listing.get(name)
        return FsspecFile(self._system.current, self._inside(name), info, self, self._versions)

    def _inside(self, name: str) -> str:
        return path_beside(self._system.current, f"{self._path}/_", name)

    def files(self, names: Sequence[str]) -> list[StoredFile]:
        return _all_of(self.file, names, [self.listing.get(name, {}) for name in names])

    def folders(self) -> list[str]:
        return self._names("directory")

    def _names(self, kind: str) -> list[str]:
        return [name for name, entry in self.listing.items() if entry["type"] == kind and is_data(name)]

    def folder(self, name: str) -> Folder:
        if name not in self._folders:
            self._folders[name] = FsspecFolder(self._system.current, self._inside(name))
        return self._folders[name]

    def parent(self) -> Folder:
        fs = self._system.current
        return FsspecFolder(fs, parent_of(fs, self._path))

    def has(self, name: str) -> bool:
        return name in self.listing

    def file_beside(self, name: str) -> StoredFile | None:
        fs = self._system.current
        return _file_or_none(fs, path_beside(fs, self._path, name))

    def bytes_beside(self, name: str, limit: int) -> tuple[str, bytes] | None:
        fs = self._system.current
        if name in self._read_ahead:
            return self._read_ahead.pop(name)
        return _bytes_or_none(fs, path_beside(fs, self._path, name), limit)


def match_files(fs: Any, pattern: str) -> tuple[dict[str, StoredFile], list[Folder]]:
    """Return name to file of the files that match a glob, and the folders that do."""
    system = CurrentSystem(fs)
    begin = time.monotonic()
    found = _glob(system, pattern)
    paths = [path for path, about in found.items() if about["type"] == "file"]
    versions = Versions(partial(_glob_identities, system, pattern, paths), time.monotonic() - begin)
    parents = {parent: FsspecFolder(fs, parent) for parent in (parent_of(fs, path) for path in found)}

    def file(path: str) -> StoredFile:
        return FsspecFile(fs, path, found[path], parents[parent_of(fs, path)], versions)

    files = {one.name: one for one in _all_of(file, paths, [found[path] for path in paths])}
    return files, [FsspecFolder(fs, path) for path, about in found.items() if about["type"] == "directory"]


def _glob_identities(system: CurrentSystem, pattern: str, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return path to `identity_of` of the files that matched a glob; empty of those that are missing now."""
    system.current.invalidate_cache()
    found = _glob(system, pattern)
    return {path: identity_of(found[path]) if path in found else () for path in paths}


def _glob(system: CurrentSystem, pattern: str) -> dict[str, Mapping[str, Any]]:
    fs = system.current
    with raise_as_os_error(str(fs.unstrip_protocol(pattern))):
        return dict(retry_transient(lambda: fs.glob(pattern, detail=True)))


def _all_of(
    file: Callable[[str], StoredFile], names: Sequence[str], listed: Iterable[Mapping[str, Any]]
) -> list[StoredFile]:
    """Return the files of these names, which a listing described; a listing without sizes takes a request for each."""
    if all(entry.get("size") is not None for entry in listed):
        return [file(name) for name in names]
    return concurrent_map(file, names, local=False)
