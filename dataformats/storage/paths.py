"""Resolve paths, URLs, globs and path objects to files and folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dataformats.errors import FormatError
from dataformats.interfaces import natural_key
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.registry import backends
from dataformats.storage.brace_patterns import expand_braces
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.given_files import BytesFile, OpenedFile, is_file_object, to_reopenable
from dataformats.storage.links import LinkBounds, LinkError
from dataformats.storage.path_objects import ObjectFile, ObjectFolder
from dataformats.storage.remote.errors import raise_as_os_error
from dataformats.storage.remote.files import FsspecFile, FsspecFolder, match_files
from dataformats.storage.remote.names import is_http, shown_url
from dataformats.storage.remote.range_requests import retry_transient
from dataformats.storage.remote.s3_reader import reader_of
from dataformats.storage.remote.systems import file_system, is_copy, is_local_system, is_url
from dataformats.storage.selected_files import OWN_SUFFIXES, GlobFolder, is_data
from dataformats.storage.threads import concurrent_map

_MAGIC = frozenset("*?[")


def resolve(
    path: Any,
    storage_options: dict[str, Any] | None = None,
    is_folder: Callable[[str], bool] = lambda name: False,
    *,
    follow_links: bool = False,
) -> list[StoredFile | Folder]:
    """Return the files and folders that `path` names, in its order; the files of a glob are one entry.

    If there is no such file, a path without its ending may name a dataset: see `Backend.prefix_ending`.

    Args:
        path: A str or PathLike, a glob, a path with braces (`shard-{000..999}.tar`), local paths between `::`, a URL
            that fsspec knows, a file or path of fsspec, an object with `open`, `/`, `exists`, `glob`, bytes, an open
            file, or a sequence of them.
        storage_options: Options of the fsspec file system.
        is_folder: Called with a path; True if it more likely names a folder than a file. A URL is then listed at once.
        follow_links: False refuses symbolic links that lead out of the folder, if they lie in it, lie beside a file, or
            match a glob. `path` itself may be a link.

    Raises:
        FileNotFoundError: A file does not exist, or a glob matches nothing.
        FormatError: A glob matches a link that is not followed.
        TypeError: `path` has another type.
        ValueError: A file object cannot be read, or decompresses.
    """
    return _resolve(path, _Opening(storage_options, is_folder, follow_links))


class _Opening(NamedTuple):
    """How paths are resolved: the arguments of `resolve` but the path."""

    storage_options: dict[str, Any] | None
    is_folder: Callable[[str], bool]
    follow_links: bool


def _resolve(path: Any, arguments: _Opening) -> list[StoredFile | Folder]:
    if isinstance(path, (bytes, bytearray, memoryview)):
        return [BytesFile(path)]
    path = to_reopenable(path)
    if hasattr(path, "fs") and hasattr(path, "path"):
        return _from_fsspec(path, arguments)
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if not isinstance(text, str):
            text = os.fsdecode(text)
        names = _listed(text)
        return _from_names(text, names, arguments)
    if isinstance(path, Sequence):
        if not path:
            raise FileNotFoundError("the list of paths is empty")
        return _from_each(path, lambda part: _resolve(part, arguments))
    if hasattr(path, "open") and hasattr(path, "exists") and hasattr(path, "__truediv__"):
        return [_from_object(path)]
    if is_file_object(path):
        return [OpenedFile(path)]
    raise TypeError(
        f"cannot open: expected a path, a list of paths, a URL, bytes, or an open file, found {type(path).__name__}"
    )


def _listed(text: str) -> list[str]:
    """Return the paths that braces, or `::` between local paths, stand for; none if the text itself is a path."""
    if ("{" not in text and "::" not in text) or (not is_url(text) and os.path.lexists(text)):
        return []
    parts = [text] if is_url(text) else text.split("::")  # fsspec chains URLs by `::`
    names = [name for part in parts for name in expand_braces(part)]
    return [] if names == [text] else names


def _from_each(paths: Sequence[Any], find: Callable[[Any], list[StoredFile | Folder]]) -> list[StoredFile | Folder]:
    parts = [find(paths[0])]  # by itself: fsspec then has the file system for all
    local = not any(isinstance(path, str) and is_url(path) for path in paths)
    parts += concurrent_map(find, paths[1:], local=local)
    return [entry for entries in parts for entry in entries]


def _from_names(text: str, names: Sequence[str], arguments: _Opening) -> list[StoredFile | Folder]:
    """Return what the names that a text stands for mean; if one is missing, what the text itself names."""
    if not names:
        return _from_name(text, arguments)
    try:
        return _from_each(names, lambda name: _from_name(name, arguments))
    except FileNotFoundError:
        with suppress(OSError):  # a name with braces in a bucket, or a folder with braces in its name
            return _from_name(text, arguments)
        raise


def _from_name(text: str, arguments: _Opening) -> list[StoredFile | Folder]:
    if not text:
        raise FileNotFoundError("the path is empty")
    try:
        return _from_text(text, arguments)
    except FileNotFoundError:
        found = _from_prefix(text, arguments)
        if found is None:
            raise
        return [found]


def is_local(path: Any) -> bool:
    """Return True for a path on the local disk."""
    return isinstance(path, (str, os.PathLike)) and not is_url(os.fspath(path))


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a path whose first part may be `~` or `~user`.

    Raises:
        FileNotFoundError: There is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise FileNotFoundError(f"{os.fspath(path)!r}: no user has this home folder") from error


def _from_text(text: str, arguments: _Opening) -> list[StoredFile | Folder]:
    if not is_url(text):
        return _from_local(text, arguments)
    options = arguments.storage_options or {}
    fs, name = reader_of(text, options) or file_system(text, options)
    return _from_system(fs, name, text, arguments)


def _from_prefix(text: str, arguments: _Opening) -> StoredFile | None:
    """Return a file of the dataset that a path without an ending names; `None` if no file has it."""
    for backend in backends.values():
        if backend.prefix_ending is not None:
            with suppress(OSError):
                (file,) = _from_text(text + backend.prefix_ending, arguments._replace(is_folder=lambda name: False))
                if isinstance(file, StoredFile) and backend.sniff(file).match != "no":
                    return file
    return None


def _from_local(text: str, arguments: _Opening) -> list[StoredFile | Folder]:
    path = local_path(text)
    if path.is_dir():
        return [LocalFolder(path, None if arguments.follow_links else LinkBounds(path))]
    if _MAGIC & set(text) and not path.exists():
        import glob

        before_stars = next(folder for folder in path.parents if not _MAGIC & set(str(folder)))
        links = None if arguments.follow_links else LinkBounds(before_stars)
        names = [name for name in glob.glob(str(path), recursive=True) if is_data(os.path.basename(name))]
        files = {name: file for name in names if (file := _regular_file(name, links)) is not None}
        folders = [] if files else [name for name in names if os.path.isdir(name)]
        if links is not None:
            for folder in {*folders, *map(os.path.dirname, files)}:
                links.check(folder)
        return _glob_entries(text, files, [LocalFolder(Path(name), links) for name in folders])
    partial = path.with_name(f"{path.name}.partial") if path.name else path
    if not path.exists() and partial.exists():
        what = "not complete: a writer is open, or was interrupted and can continue with create(..., resume=True)"
        raise FileNotFoundError(errno.ENOENT, f"No such file, only {partial.name!r}, which is {what}", str(path))
    file = LocalFile(path)  # which may itself be a link
    file.links = None if arguments.follow_links else LinkBounds(path.parent, path)
    return [file]


def _regular_file(name: str, links: LinkBounds | None) -> LocalFile | None:
    """Return a file that a glob found; `None` for anything else."""
    try:
        return LocalFile(Path(name), links)
    except LinkError:
        raise
    except (OSError, FormatError):
        return None


def _from_fsspec(file: Any, arguments: _Opening) -> list[StoredFile | Folder]:
    """Return the file that an `OpenFile` or an opened file of fsspec reads, or the files of a `UPath`."""
    if getattr(file, "compression", None):
        what = f"{shown_url(file.path)!r} is opened with compression={file.compression!r}"
        raise ValueError(f"{what}: open it without, because compressed TFRecords are recognized")
    return _from_system(file.fs, file.path, str(file.fs.unstrip_protocol(file.path)), arguments)


def _from_system(fs: Any, path: str, text: str, arguments: _Opening) -> list[StoredFile | Folder]:
    if is_local_system(fs):
        return _from_local(path, arguments)
    with raise_as_os_error(text):
        fs.invalidate_cache()  # another process may have written since it, or a folder in it, was listed
        stem = path.partition("?")[0] if is_http(path) else path  # there a query begins with `?`
        if _MAGIC & set(stem) and not fs.exists(path):
            return _glob_entries(shown_url(text), *match_files(fs, path))
        if text.endswith("/"):  # an HTTP server knows no folders, but has pages that list files
            folder = FsspecFolder(fs, path)
            if not is_http(path):
                with suppress(OSError):  # raised when the folder is read
                    folder.list_with(OWN_SUFFIXES[0])
            return [folder]
        if arguments.is_folder(path) or "." not in path.rpartition("/")[2]:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                if (folder := FsspecFolder(fs, path)).list_with(OWN_SUFFIXES[0]):
                    return [folder]
        about = retry_transient(lambda: _info(fs, path))
        return [FsspecFolder(fs, path) if about["type"] == "directory" else FsspecFile(fs, path, about)]


def _info(fs: Any, path: str) -> Any:
    try:
        return fs.info(path)
    except FileNotFoundError:
        if not is_copy(fs):
            raise
        return fs.fs.info(path)  # `filecache::` lists the folder, which an HTTP server may not have


def _from_object(path: Any) -> StoredFile | Folder:
    check = getattr(path, "is_dir", None) or getattr(path, "isdir", None)
    if check is not None and check():
        return ObjectFolder(path)
    if not path.exists():
        raise FileNotFoundError(f"{str(path)!r} does not exist")
    return ObjectFile(path)


def _glob_entries(
    pattern: str, files: Mapping[str, StoredFile], folders: Sequence[Folder]
) -> list[StoredFile | Folder]:
    """Return the files that match a glob as one entry; if no file matches, the matching folders in natural order."""
    if files:
        return [GlobFolder(pattern, dict(files))]
    if not folders:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return [*sorted(folders, key=lambda folder: natural_key(folder.name))]
