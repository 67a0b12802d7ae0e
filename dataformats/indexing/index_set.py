"""The indexes of the files of a folder, together in one file: one for each would take longer than the scan.

The index cache keeps the indexes of small files so, and a writer of shards leaves one beside their folder,
`NAME.dataformats.idx`: programs that read all files of a folder do not find it there.

The file is `DFINDEXS`, the length (uint64) and the CRC32 (uint32) of a table, the table, and the blocks of each file in
its order. A line of the table has the bytes of the blocks, a tab, the file's name, a tab, and the header as JSON.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.atomic import write_chunks
from dataformats.storage.descriptors import open_patiently

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFINDEXS"
_START = struct.Struct("<8sQI")
_UNUSABLE = (ValueError, struct.error, OSError, MemoryError)
_SAVED_EVERY_S = 1.0
_SHARE = 20  # saving takes at most so small a part of the time
_WHOLE_BYTES = 2**22  # the first bytes of an index behind a URL, which are read at once
INDEX_SUFFIX = ".dataformats.idx"

Read = Callable[[int, int], bytes]
"""Takes an offset and a length, and returns those bytes; fewer at the end."""

Found = tuple[Any, int, tuple[Read, str | None, int]]
"""The header of an index, the bytes of its blocks; how to read them, their path if it is local, and their offset."""


_Table = dict[str, tuple[int, int, str]]  # key to base, bytes and header
_FolderIndex = tuple[Read, str | None, _Table]  # how to read it, and its path if it is local

Member = tuple[str, dict[str, Any], int]
"""The name of a file, the header of its index, and the bytes of its blocks."""


class IndexSet:
    """Headers and blocks of indexes, by the names of their files. Thread-safe.

    Each process adds what others have saved, and replaces the file by one rename. If two do so at once, the indexes
    of one of them are lost, and built again when they are needed.

    Args:
        path: The file.
        folder: The folder of the data; `None` if it is not local. Indexes of files that it lacks are dropped.
    """

    def __init__(self, path: str, folder: str | None) -> None:
        self.path = path
        self._folder = folder
        self._saved: _Table = {}
        self._new: dict[str, tuple[bytes, str]] = {}  # name to blocks, header
        self._seen: tuple[int, int, int] | None = None
        self._saved_at, self._cost_s = time.monotonic(), 0.0
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def load(self, name: str) -> Found | None:
        """Return the index of a file; `None` if it is not saved.

        Raises:
            ValueError: The header is damaged.
        """
        with self._lock:
            self._refresh()
            found = self._saved.get(_key(name))
        return None if found is None else (json.loads(found[2]), found[1], (LocalBytes(self.path), self.path, found[0]))

    def add(self, name: str, header: dict[str, Any], blocks: bytes) -> None:
        """Add the index of a file, or replace it; save all of them from time to time.

        Raises:
            OSError: They cannot be saved.
        """
        with self._lock:
            self._new[_key(name)] = blocks, _text(header)
            if time.monotonic() - self._saved_at > max(_SAVED_EVERY_S, _SHARE * self._cost_s):
                self._save()

    def save(self) -> int:
        """Save the indexes that were added, and forget what was loaded; return the bytes of their blocks.

        Raises:
            OSError: They cannot be saved.
        """
        with self._lock:
            n_bytes = sum(len(blocks) for blocks, _ in self._new.values())
            if self._new:
                self._save()
            self._seen, self._saved = None, {}
            return n_bytes

    def _save(self) -> None:
        begin, new = time.monotonic(), self._new
        self._new = {}  # if they cannot be written, their indexes have the blocks in memory
        self._refresh()
        kept = {name: found for name, found in self._saved.items() if name not in new}
        with suppress(OSError):
            there = set(map(_key, os.listdir(self._folder))) if self._folder is not None else kept.keys()
            kept = {name: found for name, found in kept.items() if name in there}
        lines = [_line(name, header, n_bytes) for name, (_, n_bytes, header) in kept.items()]
        lines += [_line(name, header, len(blocks)) for name, (blocks, header) in new.items()]
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        try:
            added = (blocks for blocks, _ in new.values())
            _write(self.path, lines, itertools.chain(self._blocks([found[:2] for found in kept.values()]), added))
        finally:
            self._saved_at = time.monotonic()
            self._cost_s = self._saved_at - begin

    def _blocks(self, places: list[tuple[int, int]]) -> Iterator[bytes]:
        if places:
            with open_patiently(lambda: open(self.path, "rb")) as file:
                for base, n_bytes in places:
                    file.seek(base)
                    yield file.read(n_bytes)

    def _refresh(self) -> None:
        """Load what was saved since the last call, by whatever process."""
        try:
            status = os.stat(self.path)
            seen = status.st_ino, status.st_mtime_ns, status.st_size
            if seen == self._seen:
                return
            self._seen, self._saved = seen, {}
            self._saved = _table(LocalBytes(self.path), status.st_size)
        except (FileNotFoundError, NotADirectoryError):
            self._saved = {}
        except _UNUSABLE as error:
            _LOG.warning("ignored the indexes %s: %s", self.path, error)


class LocalBytes:
    """Reads from a path, opened for each call: open indexes of many files would take too many descriptors."""

    __slots__ = ("_path", "_start")

    def __init__(self, path: str, start: bytes = b"") -> None:
        self._path = path
        self._start = start

    def __call__(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self._start):
            return self._start[offset : offset + length]
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC
        descriptor = open_patiently(lambda: os.open(self._path, flags))
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def without_start(self) -> LocalBytes:
        """Return a reader of the same path that holds none of its bytes."""
        return LocalBytes(self._path)


class FolderIndexes:
    """The indexes beside folders of shards; each is read once. Thread-safe."""

    def __init__(self) -> None:
        self._folders: dict[str, _FolderIndex | None] = {}
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def load(self, file: StoredFile) -> Found | None:
        """Return the index of a shard, or `None`.

        Raises:
            ValueError: The header is damaged.
        """
        folder = file.name.removesuffix(file.basename)
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = self._read(file)
            index = self._folders[folder]
        if index is None or (found := index[2].get(_key(file.basename))) is None:
            return None
        return json.loads(found[2]), found[1], (*index[:2], found[0])

    def _read(self, file: StoredFile) -> _FolderIndex | None:
        folder = file.folder()
        if folder is None or not folder.basename:
            return None
        name = folder.basename + INDEX_SUFFIX
        try:
            if file.local is None:
                with suppress(FormatError):  # longer than that
                    found = folder.bytes_beside(name, _WHOLE_BYTES)  # by one request
                    start = b"" if found is None else found[1]
                    return (_FirstBytes(start), None, _table(_FirstBytes(start), len(start))) if start else None
            there = folder.file_beside(name)
            if there is None:
                return None
            local = there.local
            read: Read = LocalBytes(local) if local is not None else _FirstBytes(there.pread(0, _WHOLE_BYTES), there)
            return read, local, _table(read, there.size)
        except _UNUSABLE as error:
            _LOG.warning("ignored the index %s of %s: %s", name, folder.name, error)
            return None


class _FirstBytes:
    """Reads from the first bytes of a file behind a URL, which are kept, and else from the file."""

    def __init__(self, start: bytes, file: StoredFile | None = None) -> None:
        self._start = start
        self._file = file

    def __call__(self, offset: int, length: int) -> bytes:
        if self._file is None or offset + length <= len(self._start):
            return self._start[offset : offset + length]
        return self._file.pread(offset, length)


def write_members(path: Path, members: Sequence[Member], blocks: Iterable[bytes]) -> None:
    """Write indexes, and their blocks in this order, as one file."""
    _write(str(path), [_line(_key(name), _text(header), n_bytes) for name, header, n_bytes in members], blocks)


def _write(path: str, lines: Sequence[str], blocks: Iterable[bytes]) -> None:
    text = "".join(lines).encode()
    start = _START.pack(_MAGIC, len(text), zlib.crc32(text)) + text
    write_chunks(Path(path), itertools.chain((start,), blocks), sync_to_disk=False)


def _line(key: str, header: str, n_bytes: int) -> str:
    return f"{n_bytes}\t{key}\t{header}\n"


def _table(read: Read, size: int) -> _Table:
    """Return key to base, bytes and header of each index.

    Raises:
        ValueError: They are damaged.
    """
    magic, length, checksum = _START.unpack(read(0, _START.size))
    text = read(_START.size, length) if magic == _MAGIC and length <= size else b""
    if magic != _MAGIC or len(text) != length or zlib.crc32(text) != checksum:
        raise ValueError("not indexes of this version, or their table is damaged")
    found, base = {}, _START.size + length
    for line in text.decode().split("\n")[:-1]:
        n_bytes, key, header = line.split("\t")
        found[key] = base, int(n_bytes), header
        base += int(n_bytes)
    if base != size:
        raise ValueError(f"expected {base} bytes, found {size}")
    return found


def _text(header: dict[str, Any]) -> str:
    return json.dumps(header, separators=(",", ":"))


def _key(name: str) -> str:
    return json.dumps(name)  # no tabs, no line ends, and ASCII
