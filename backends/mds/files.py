"""The files of the shards that an index lists: plain or compressed, in the folder of the index or below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from dataformats.backends.mds.index_file import Shard
from dataformats.errors import FormatError
from dataformats.interfaces import Backend, Folder, SniffResult, StoredFile
from dataformats.storage.compressed.chunked_file import ChunkedFile, ChunkTable
from dataformats.storage.compressed.zstd_frames import decode_gzip, decode_zstd

INDEX = "index.json"
"""The name of an index."""

RESTORE = f"Restore {INDEX}: it lists the shards and their columns"

_DECODE = {"zstd": ("zstd", decode_zstd), "gz": ("gzip", decode_gzip)}


def sniff_listed(
    backend: Backend, file: StoredFile, begin: re.Pattern[bytes], read_shards: Callable[[StoredFile], Sequence[Shard]]
) -> SniffResult:
    """Recognize an index by its first bytes, and a shard by the index beside it.

    Args:
        backend: The backend, which knows the names of shards: behind a URL, looking for an index costs a request.
        file: The file.
        begin: The first bytes of an index.
        read_shards: Returns the shards that an index lists.
    """
    if not backend.matches_name(file.basename):
        return SniffResult("no", f"{INDEX} and shards have other names")
    index = file if file.basename == INDEX else file.file_beside(INDEX)
    if index is None or not begin.match(index.pread(0, 4096)):
        problem = "is missing beside it" if index is None else "is not of the format" if index.size else "is empty"
        return SniffResult("no", f"{INDEX} {problem}", None if index is file and file.size else RESTORE)
    try:
        shards = read_shards(index)
    except FormatError as error:
        return SniffResult("damaged", error.what)
    is_listed = index is file or any(file.basename in basenames(shard) for shard in shards)
    return SniffResult("yes") if is_listed else SniffResult("no", f"the {INDEX} beside it does not list it")


def basenames(shard: Shard) -> set[str]:
    """Return the names of the plain and the compressed file of a shard."""
    return {name.rsplit("/", 1)[-1] for name in (shard.name, shard.zip_name) if name is not None}


class FoldersBelow:
    """A folder and the folders below it, each listed once."""

    def __init__(self, folder: Folder) -> None:
        self._known: dict[str, tuple[Folder, frozenset[str]]] = {}
        self._folder = folder

    def file(self, path: str) -> StoredFile | None:
        """Return the file at a path below the folder, or `None`."""
        parent, _, name = path.rpartition("/")
        if parent not in self._known:
            inside, names = self._folder, frozenset[str]()
            with suppress(FileNotFoundError, NotADirectoryError):
                for part in filter(None, parent.split("/")):
                    inside = inside.folder(part)
                names = frozenset(inside.names())
            self._known[parent] = inside, names
        inside, names = self._known[parent]
        return inside.file(name) if name in names else None


def file_of_shard(folder: FoldersBelow, shard: Shard) -> StoredFile | None:
    """Return the plain file of a shard, else the compressed one, else `None`."""
    return next((file for name in _names(shard) if (file := folder.file(name)) is not None), None)


def shard_files(index: StoredFile, shards: Sequence[Shard], given: Mapping[str, StoredFile]) -> list[StoredFile]:
    """Return the file of each shard, one of the given files if it is among them.

    Raises:
        FormatError: One is missing.
    """
    found = list[StoredFile]()
    for shard, file in zip(shards, found_files(index, shards, given), strict=True):
        if file is None:
            what = "a shard that the index lists is missing"
            raise FormatError(what, path=index.name, expected=" or ".join(_names(shard)))
        found.append(file)
    return found


def files_or_paths(
    index: StoredFile, shards: Sequence[Shard], given: Mapping[str, StoredFile]
) -> list[StoredFile | str]:
    """Return the file of each shard, the path of a missing one."""
    base, files = index.name.removesuffix(INDEX), found_files(index, shards, given)
    return [base + shard.name if file is None else file for shard, file in zip(shards, files, strict=True)]


def found_files(
    index: StoredFile, shards: Sequence[Shard], given: Mapping[str, StoredFile]
) -> Iterator[StoredFile | None]:
    """Yield the file of each shard, `None` for a missing one."""
    base, folder = index.name.removesuffix(INDEX), index.folder()
    below = None if folder is None else FoldersBelow(folder)
    for shard in shards:
        names = _names(shard)
        file = next((given[base + name] for name in names if base + name in given), None)
        if file is None and below is not None:
            file = file_of_shard(below, shard)
        elif file is None:
            file = next(filter(None, (index.file_beside(name) for name in names if "/" not in name)), None)
        yield file


def _names(shard: Shard) -> list[str]:
    return [name for name in (shard.name, shard.zip_name) if name is not None]


def plain_file(file: StoredFile, shard: Shard) -> StoredFile:
    """Return the decompressed file of a shard.

    Raises:
        FormatError: The compression is not read.
    """
    if shard.zip_name is None or file.basename != shard.zip_name.rsplit("/", 1)[-1]:
        return file
    name = (shard.compression or "").partition(":")[0]
    if name not in _DECODE:
        remedy = "Decompress the shards beside their files: the plain ones are then read"
        raise FormatError(
            "the compression is not read", path=file.name, expected="zstd or gz", found=name, remedy=remedy
        )
    compression, decode = _DECODE[name]
    whole = ChunkTable(*(np.array([number], np.int64) for number in (0, file.size, shard.n_bytes)))
    return ChunkedFile(file, whole, decode, compression)
