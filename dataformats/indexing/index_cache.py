"""Save and load the indexes of files: a header is read at once, rows are read on demand.

An index is `DFINDEX3`, the length (uint32) and the CRC32 (uint32) of a JSON header, the header, and the blocks of
`block_file`, sealed with the CRC32 of the header's digest: building the same index again gives the same blocks, so that
readers of the first one are not disturbed. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import struct
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, UnknownNameError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.block_file import (
    BlockColumn,
    BlockLayout,
    BlockRows,
    BrokenBlockError,
    NumberArray,
    digest,
    layout_of,
    pack,
    unpack,
)
from dataformats.indexing.index_set import INDEX_SUFFIX, FolderIndexes, IndexSet, LocalBytes, Read
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.atomic import write_chunks
from dataformats.storage.descriptors import open_patiently

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFINDEX3"
_HEADER = struct.Struct("<8sII")
_FIRST_READ = 4096  # a header has about 400 bytes, more if the file is damaged
_MAX_HEADER = 2**20
UNUSABLE = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error, OSError, MemoryError)
_TICK_NS = 50_000_000
_SMALL = 2**14  # bytes of blocks that are kept together with others
_PLACES = ("cache", "beside")


@dataclass(frozen=True, slots=True)
class Index:
    """The index of one file. Thread-safe.

    Attributes:
        layout: The number of rows, and their columns.
        total: The sum of the first column over all rows, as stored in the header.
        digest: Identifies these rows, whatever their storage.
        metadata: Further metadata, as JSON.
        exact: True if the index was made of this very file (size and time); False if it came with the data and only
            the size fits: then it is a hint, and every frame must be checked.
        seal: Combined with the checksums of blocks.
        read: Reads bytes of the blocks.
        path: The local file with the blocks, or `None`.
        base: Where the blocks begin in that file.
    """

    layout: BlockLayout
    total: int
    digest: str
    metadata: Mapping[str, Any]
    exact: bool
    seal: int
    read: Read
    path: str | None = None
    base: int = 0

    def __len__(self) -> int:
        return self.layout.n

    def rows(self, first: int, stop: int) -> BlockRows:
        """Return the rows `[first, stop)`, which lie in `[0, len(self)]`.

        Raises:
            BrokenBlockError: The rows are damaged, or another index replaced this one.
        """
        try:
            return unpack(self.layout, self.read, self.seal, first, stop)
        except (OSError, FormatError) as error:  # the latter of an object that was replaced
            raise BrokenBlockError(str(error)) from error


class IndexCache:
    """Loads and saves the indexes of the files of a dataset. Thread-safe.

    Args:
        where: `"cache"`, `"beside"` the data, or a folder. Beside the data, `load` also finds the index of shards.

    Attributes:
        folder: The folder of the indexes; empty if each lies beside its file.
        failure: Why the first index that could not be written was not; `None` if all were.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.failure: str | None = None
        self._sets: dict[str, IndexSet] = {}
        self._shards = FolderIndexes()
        self._beside: dict[str, StoredFile | None] = {}  # the indexes beside files behind URLs, by their names
        self._folders: dict[str, str] = {}  # given to resolved: resolving ten thousand names takes a second
        self.folder: str = (
            "" if where == "beside" else str(cache_folder() / "indexes" if where == "cache" else Path(where))
        )

    def keep_together(self, files: Sequence[StoredFile]) -> None:
        """Keep the indexes of small files in one file for each folder of these, unless each lies beside its file."""
        if self.folder and len(files) > 1 and all(file.stored.has_name for file in files):
            for file in {file.name.rpartition(os.sep)[0]: file for file in files}.values():
                folder = os.path.dirname(self._member(file))
                name = hashlib.blake2b(f"{folder}/".encode(errors="surrogateescape"), digest_size=16).hexdigest()
                path = os.path.join(self.folder, name + INDEX_SUFFIX)
                self._sets[folder] = IndexSet(path, None if file.local is None else folder)

    def save_added(self) -> int:
        """Save the indexes that are kept together; return the bytes of their blocks."""
        n_bytes = 0
        for folder, members in self._sets.items():
            try:
                n_bytes += members.save()
            except (OSError, MemoryError) as error:
                self._report(folder, str(error))
        return n_bytes

    def _set_of(self, file: StoredFile) -> tuple[IndexSet | None, str]:
        """Return the indexes with this file's, if it is small, and its name there."""
        folder, name = os.path.split(self._member(file)) if self._sets else ("", "")
        return self._sets.get(folder), name

    def load(self, file: StoredFile, kind: str) -> Index | None:
        """Return the index of a file; `None` if it is missing, outdated or broken.

        Args:
            file: The data file.
            kind: The kind of index; an index of another kind does not count.
        """
        member = self._load_member(file, kind)
        return member if member is not None and member.exact else self._load_single(file, kind) or member

    @cached_property
    def beside(self) -> IndexCache:
        """The indexes beside the data."""
        return self if self.where == "beside" else IndexCache("beside")

    def _load_single(self, file: StoredFile, kind: str) -> Index | None:
        path = self.path(file)
        if path is None and file.name not in self._beside:
            self._beside[file.name] = file.file_beside(file.basename + INDEX_SUFFIX)
        sidecar = self._beside[file.name] if path is None else None
        if path is None and sidecar is None:
            return None
        try:
            if sidecar is not None:
                return _parse(sidecar.pread, sidecar.size, file, kind, None)
            assert path is not None  # path or sidecar is not None
            with open_patiently(lambda: open(path, "rb", buffering=0)) as opened:
                start, size = opened.read(_FIRST_READ), os.fstat(opened.fileno()).st_size
            return _parse(LocalBytes(path, start), size, file, kind, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UNUSABLE as error:
            _LOG.warning("ignored the index %s: %s", path or (sidecar and sidecar.name), error)
            return None

    def _load_member(self, file: StoredFile, kind: str) -> Index | None:
        members, name = self._set_of(file)
        try:
            if members is not None:
                found = members.load(name)
            else:
                found = self._shards.load(file) if self.where == "beside" else None
            return None if found is None else _index(found[0], found[1], file, kind, found[2])
        except UNUSABLE as error:
            _LOG.warning("ignored an index of %s: %s", file.name, error)
            return None

    def save(
        self, file: StoredFile, kind: str, columns: Mapping[str, NumberArray], metadata: Mapping[str, Any]
    ) -> Index:
        """Save an index in one rename, and return it; keep it in memory if it cannot be written.

        Args:
            file: The data file.
            kind: The kind of index.
            columns: Name to integers in [0, 2**63), all equally long; at least one column.
            metadata: What else describes the file, as JSON.
        """
        layout, first = layout_of(columns), next(iter(columns.values()))
        total, name = int(first.sum(dtype="<i8")), digest(columns)
        header = {
            "kind": kind,
            "identity": list(file.identity),
            "made_ns": time.time_ns(),
            "facts": dict(metadata),
            "n": layout.n,
            "columns": [[column.name, column.dtype, column.constant] for column in layout.columns],
            "total": total,
            "digest": name,
        }
        seal = zlib.crc32(name.encode())
        members, member = self._set_of(file) if layout.n_bytes <= _SMALL else (None, "")
        if members is not None or not file.stored.has_name:
            blocks = b"".join(pack(layout, columns, seal))
            try:
                if members is not None:
                    members.add(member, header, blocks)
            except (OSError, MemoryError) as error:
                self._report(file.name, str(error))
            return Index(layout, total, name, dict(metadata), True, seal, partial(_slice, blocks))
        text = json.dumps(header).encode()
        start = _HEADER.pack(_MAGIC, len(text), zlib.crc32(text)) + text
        path = self.path(file)
        read: Read
        try:
            if path is None:
                raise OSError("cannot write beside data that are not local")
            _write(path, start, pack(layout, columns, seal))
            read = _Blocks(LocalBytes(path), len(start))
        except (OSError, MemoryError) as error:
            self._report(file.name, str(error))  # the text alone: the error's traceback would keep the columns alive
            path, read = None, partial(_slice, b"".join(pack(layout, columns, seal)))
        return Index(layout, total, name, dict(metadata), True, seal, read, path, len(start))

    def _report(self, name: str, error: str) -> None:
        """Warn about the first index that cannot be written: the others would fail for the same reason."""
        if self.failure is None:
            self.failure = error
            remedy = ". Set DATAFORMATS_CACHE to a folder that can be written" if self.where == "cache" else ""
            _LOG.warning("indexes are kept in memory only, the first one of %s: %s%s", name, error, remedy)

    def path(self, file: StoredFile) -> str | None:
        """Return the path of a file's index; `None` if it has no name, or lies beside a file that is not local."""
        if not file.stored.has_name:
            return None
        if self.where == "beside":
            return None if file.local is None else file.local + INDEX_SUFFIX
        name = hashlib.blake2b(self.resolved(file).encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return os.path.join(self.folder, name + INDEX_SUFFIX)

    def resolved(self, file: StoredFile) -> str:
        """Return the name of a file, independent of links and of the current folder."""
        if file.local is not None and os.path.islink(file.local):
            return os.path.realpath(file.local)
        return self._member(file)

    def _member(self, file: StoredFile) -> str:
        """Return the name of a file, independent of links to its folder and of the current folder."""
        if file.local is None:
            return file.name
        folder, name = os.path.split(file.local)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)


def check_place(where: object) -> None:
    """Raise `UnknownNameError` for a text that is neither a known place of indexes nor a folder."""
    if not isinstance(where, str) or where in _PLACES or "/" in where or os.sep in where or os.path.isdir(where):
        return
    remedy = "A new folder in the current one needs a separator, as in './indexes'"
    raise UnknownNameError("place of indexes", name=where, known=_PLACES, remedy=remedy)


def cache_folder() -> Path:
    """Return the folder of this user's indexes: `DATAFORMATS_CACHE`, or the platform's cache folder."""
    if chosen := os.environ.get("DATAFORMATS_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dataformats"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dataformats"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataformats"


class _Blocks:
    """The blocks of an index behind its header."""

    __slots__ = ("_base", "_read")

    def __init__(self, read: Read, base: int) -> None:
        self._read = read
        self._base = base

    def __call__(self, offset: int, length: int) -> bytes:
        return self._read(self._base + offset, length)


def _slice(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def _parse(read: Read, size: int, file: StoredFile, kind: str, path: str | None) -> Index | None:
    header, base = read_header(read, size)
    return _index(header, size - base, file, kind, (read, path, base))


def read_header(read: Read, size: int) -> tuple[dict[str, Any], int]:
    """Return the header of an index of `size` bytes, and where its blocks begin.

    Raises:
        ValueError, struct.error: It is damaged.
    """
    start = read(0, min(size, _FIRST_READ))
    magic, length, checksum = _HEADER.unpack_from(start)
    base = _HEADER.size + length
    if magic != _MAGIC or length > _MAX_HEADER:
        raise ValueError("not an index of this version, or its header is damaged")
    text = (start if base <= len(start) else read(0, base))[_HEADER.size : base]
    if zlib.crc32(text) != checksum:
        raise ValueError("its header is damaged")
    return json.loads(text), base


def _index(
    header: Mapping[str, Any], n_bytes: int, file: StoredFile, kind: str, place: tuple[Read, str | None, int]
) -> Index | None:
    """Return the index with this header, and blocks at a place; `None` if it is of another kind or file.

    Args:
        header: From `save`; not believed.
        n_bytes: Bytes of the blocks.
        file: The data file.
        kind: The expected kind of index.
        place: Reads bytes, the path of the file that they are read from, and where the blocks begin in it.
    """
    identity, (read, path, base) = tuple(header["identity"]), place
    if header["kind"] != kind or identity[0] != file.identity[0]:
        return None
    layout = BlockLayout(_whole(header["n"]), _columns(*map(tuple, header["columns"])))
    if layout.n_bytes != n_bytes:
        raise ValueError(f"expected {layout.n_bytes} bytes of blocks, found {n_bytes}")
    if not isinstance(header["facts"], dict):
        raise ValueError(f"expected a mapping of metadata, found {type(header['facts']).__name__}")
    exact = identity == file.identity and not _racy(identity, _whole(header["made_ns"]))
    blocks = _Blocks(read.without_start() if isinstance(read, LocalBytes) else read, base)
    name = str(header["digest"])
    seal = zlib.crc32(name.encode())
    return Index(layout, _total(layout, header), name, header["facts"], exact, seal, blocks, path, base)


@lru_cache
def _columns(*columns: tuple[Any, ...]) -> tuple[BlockColumn, ...]:
    """Return these columns; the indexes of many shards share them."""
    return tuple(BlockColumn(*column) for column in columns)


def _whole(number: object) -> int:
    if not isinstance(number, int):
        raise TypeError(f"expected an integer, found {number!r}")
    return number


def _total(layout: BlockLayout, header: Mapping[str, Any]) -> int:
    total, constant = _whole(header["total"]), layout.columns[0].constant
    if constant is not None and total != constant * layout.n:
        raise ValueError(f"expected the total {constant * layout.n} of {layout.n} rows, found {total}")
    return total


def _racy(identity: tuple[str, ...], made_ns: int) -> bool:
    """Return True if the file may have changed after the index was made, with the same size and time.

    File times are coarse: two writes within one tick have the same time (git calls such a file racily clean).
    """
    return len(identity) > 1 and identity[1].isdecimal() and made_ns - int(identity[1]) < _TICK_NS


def _write(path: str, start: bytes, blocks: Iterable[bytes]) -> None:
    """Write a file in one rename; not synced, because a file that a crash tears is detected and made again."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_chunks(Path(path), itertools.chain((start,), blocks), sync_to_disk=False)
