"""Where the indexes of files are kept, and what they say: headers are read at once, rows when they are asked for.

An index is `DFINDEX2`, the length (uint32) and the CRC32 (uint32) of a JSON header, the header, and the blocks of
`rows`, sealed with the CRC32 of the header's digest: whoever makes the same index again makes the same blocks, so that
those who hold the first one read on. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dataformats.indexing.block_file import (
    BlockColumn,
    BlockLayout,
    BlockRows,
    BrokenBlockError,
    Numbers,
    digest,
    layout_of,
    pack,
    unpack,
)
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["INDEX_SUFFIX", "Index", "IndexCache", "cache_folder"]

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFINDEX2"
_HEADER = struct.Struct("<8sII")
_FIRST_READ = 4096  # a header has some 400 bytes, more where it tells of damage
_MOST_HEADER = 2**20
_UNUSABLE = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error, OSError, MemoryError)
_TICK_NS = 50_000_000
INDEX_SUFFIX = ".dataformats.idx"

Read = Callable[[int, int], bytes]
"""Returns so many bytes from a byte on; fewer at the end."""


@dataclass(frozen=True, slots=True)
class Index:
    """The index of one file. Thread-safe.

    Attributes:
        layout: How many rows there are, and of which columns.
        total: The sum of the first column over all rows, as the header says.
        digest: Tells these rows from others, however they are kept.
        facts: What else is known, as JSON.
        exact: True where the index was made of this very file (size and time); False where it came with the data
            and only the size fits: then it is a hint, and every frame must be checked.
        seal: What the checksums of blocks are combined with.
        read: Returns bytes of the blocks.
    """

    layout: BlockLayout
    total: int
    digest: str
    facts: Mapping[str, Any]
    exact: bool
    seal: int
    read: Read

    def __len__(self) -> int:
        return self.layout.n

    def rows(self, first: int, stop: int) -> BlockRows:
        """Return the rows `[first, stop)`, which lie in `[0, len(self)]`.

        Raises:
            BrokenBlockError: They are damaged, or the index was replaced by another one.
        """
        try:
            return unpack(self.layout, self.read, self.seal, first, stop)
        except OSError as error:
            raise BrokenBlockError(str(error)) from error


class IndexCache:
    """Where the indexes of the files of a data set are kept. Thread-safe.

    Args:
        where: `"cache"`, `"beside"` the data, or a folder.

    Attributes:
        folder: The folder that holds them; empty where each lies beside its file.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self._folders: dict[str, str] = {}  # as named to as resolved: to resolve ten thousand names takes a second
        self.folder: str = (
            "" if where == "beside" else str(cache_folder() / "indexes" if where == "cache" else Path(where))
        )

    def load(self, file: StoredFile, kind: str) -> Index | None:
        """Return the index of a file, or `None` where there is none, an old one or a broken one.

        Args:
            file: The data file.
            kind: What sort of index; another sort is not this file's.
        """
        path = self.path(file)
        sidecar = file.sibling(file.basename + INDEX_SUFFIX) if path is None else None
        if path is None and sidecar is None:
            return None
        try:
            if sidecar is not None:
                return _parse(sidecar.pread, sidecar.size, file, kind)
            assert path is not None  # one of both is there
            with open(path, "rb", buffering=0) as opened:
                start, size = opened.read(_FIRST_READ), os.fstat(opened.fileno()).st_size
            return _parse(_Local(path, start), size, file, kind)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except _UNUSABLE as error:
            _LOG.warning("ignored the index %s: %s", path or (sidecar and sidecar.name), error)
            return None

    def save(self, file: StoredFile, kind: str, columns: Mapping[str, Numbers], facts: Mapping[str, Any]) -> Index:
        """Keep an index so that others see it whole, and return it; in memory where it cannot be written.

        Args:
            file: The data file.
            kind: What sort of index.
            columns: Name to whole numbers in [0, 2**63), all equally long; at least one column.
            facts: What else is known, as JSON.
        """
        layout, first = layout_of(columns), next(iter(columns.values()))
        total, told = int(first.sum(dtype="<i8")), digest(columns)
        header = {
            "kind": kind,
            "identity": list(file.identity),
            "made_ns": time.time_ns(),
            "facts": dict(facts),
            "n": layout.n,
            "columns": [list(asdict(column).values()) for column in layout.columns],
            "total": total,
            "digest": told,
        }
        text = json.dumps(header).encode()
        start = _HEADER.pack(_MAGIC, len(text), zlib.crc32(text)) + text
        seal = zlib.crc32(told.encode())
        path = self.path(file)
        try:
            if path is None:
                raise OSError("it would lie beside data that cannot be written")
            _write(path, start, pack(layout, columns, seal))
            read: Read = _Blocks(_Local(path), len(start))
        except (OSError, MemoryError) as error:
            # The text alone: whoever keeps log records would keep the columns with the error's traceback.
            _LOG.warning("the index of %s is kept in memory only: %s", file.name, str(error))
            read = partial(_slice, b"".join(pack(layout, columns, seal)))
        return Index(layout, total, told, dict(facts), True, seal, read)

    def path(self, file: StoredFile) -> str | None:
        """Return where the index of a file lies; `None` where it lies beside a file that is not local."""
        if self.where == "beside":
            return None if file.local is None else str(file.local.with_name(file.basename + INDEX_SUFFIX))
        name = hashlib.blake2b(self.resolved(file).encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return os.path.join(self.folder, name + INDEX_SUFFIX)

    def resolved(self, file: StoredFile) -> str:
        """Return the name of a file that does not depend on links and the current folder."""
        if file.local is None:
            return file.name
        text = str(file.local)
        if os.path.islink(text):
            return os.path.realpath(text)
        folder, name = os.path.split(text)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)


def cache_folder() -> Path:
    """Return the folder of this user's indexes: `DATAFORMATS_CACHE`, or the platform's cache folder."""
    if chosen := os.environ.get("DATAFORMATS_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dataformats"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dataformats"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataformats"


class _Local:
    """Reads from a path, which is opened for each call: indexes of many files would be as many descriptors."""

    __slots__ = ("_path", "_start")

    def __init__(self, path: str, start: bytes = b"") -> None:
        self._path = path
        self._start = start

    def __call__(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self._start):
            return self._start[offset : offset + length]
        descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def without_start(self) -> _Local:
        """Return the same without what it holds of the file."""
        return _Local(self._path)


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


def _parse(read: Read, size: int, file: StoredFile, kind: str) -> Index | None:
    start = read(0, min(size, _FIRST_READ))
    magic, length, checksum = _HEADER.unpack_from(start)
    base = _HEADER.size + length
    if magic != _MAGIC or length > _MOST_HEADER:
        raise ValueError("it is no index of this version, or its header is damaged")
    text = (start if base <= len(start) else read(0, base))[_HEADER.size : base]
    if zlib.crc32(text) != checksum:
        raise ValueError("its header is damaged")
    header = json.loads(text)
    identity = tuple(header["identity"])
    if header["kind"] != kind or identity[0] != file.identity[0]:
        return None
    layout = BlockLayout(_whole(header["n"]), tuple(BlockColumn(*column) for column in header["columns"]))
    if base + layout.n_bytes != size:
        raise ValueError(f"it has {size} bytes in place of {base + layout.n_bytes}")
    if not isinstance(header["facts"], dict):
        raise ValueError("its facts are no mapping")
    exact = identity == file.identity and not _racy(identity, _whole(header["made_ns"]))
    blocks = _Blocks(read.without_start() if isinstance(read, _Local) else read, base)
    told = str(header["digest"])
    seal = zlib.crc32(told.encode())
    return Index(layout, _total(layout, header), told, header["facts"], exact, seal, blocks)


def _whole(number: object) -> int:
    if not isinstance(number, int):
        raise TypeError(f"expected a whole number, found {number!r}")
    return number


def _total(layout: BlockLayout, header: Mapping[str, Any]) -> int:
    total, constant = _whole(header["total"]), layout.columns[0].constant
    if constant is not None and total != constant * layout.n:
        raise ValueError(f"{layout.n} rows of {constant} do not come to {total}")
    return total


def _racy(identity: tuple[str, ...], made_ns: int) -> bool:
    """Return True where the file may have changed after the index was made without its size and time telling so.

    Times of files are coarse: what is written within the same tick has the same time, as git found out.
    """
    return len(identity) > 1 and identity[1].isdecimal() and made_ns - int(identity[1]) < _TICK_NS


def _write(path: str, start: bytes, blocks: Iterable[bytes]) -> None:
    """Write a file in one rename; not synced, because what a crash tears shows and is made again."""
    partial_path = f"{path}.{os.getpid()}.{secrets.token_hex(4)}.partial"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(partial_path, "wb") as file:
            file.write(start)
            file.writelines(blocks)
        os.replace(partial_path, path)
    except BaseException:
        Path(partial_path).unlink(missing_ok=True)
        raise
