"""The files of the shards that an index lists: plain or compressed, in the folder of the index or below."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from dataformats.backends.mds.index_file import Shard
from dataformats.errors import FormatError
from dataformats.interfaces import Folder, StoredFile
from dataformats.storage.compressed.chunked_file import ChunkCache, ChunkedFile, ChunkTable
from dataformats.storage.compressed.zstd_frames import decode_gzip, decode_zstd

__all__ = ["INDEX", "FoldersBelow", "file_of_shard", "plain_file", "shard_file"]

INDEX = "index.json"
"""The name of an index."""

_DECODE = {"zstd": ("zstd", decode_zstd), "gz": ("gzip", decode_gzip)}


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
    names = [name for name in (shard.name, shard.zip_name) if name is not None]
    return next((file for name in names if (file := folder.file(name)) is not None), None)


def shard_file(index: StoredFile, shard: Shard, given: Mapping[str, StoredFile]) -> StoredFile:
    """Return the file of a shard, one of the given files if it is among them.

    Raises:
        FormatError: It is missing.
    """
    base = index.name.removesuffix(INDEX)
    for name in (shard.name, shard.zip_name):
        if name is not None and base + name in given:
            return given[base + name]
    folder = index.folder()
    if folder is not None:
        file = file_of_shard(FoldersBelow(folder), shard)
    else:
        beside = [name for name in (shard.name, shard.zip_name) if name is not None and "/" not in name]
        file = next(filter(None, map(index.file_beside, beside)), None)
    if file is None:
        expected = " or ".join(name for name in (shard.name, shard.zip_name) if name is not None)
        raise FormatError("a shard that the index lists is missing", path=index.name, expected=expected)
    return file


def plain_file(file: StoredFile, shard: Shard, cache: ChunkCache) -> StoredFile:
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
    return ChunkedFile(file, whole, decode, compression, cache)
