"""The indexes of the small files of a folder, together in one file: one for each would take longer than the scan.

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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.fork_hooks import after_fork
from dataformats.storage.atomic import write_chunks
from dataformats.storage.descriptors import open_patiently

__all__ = ["IndexSet"]

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFINDEXS"
_START = struct.Struct("<8sQI")
_UNUSABLE = (ValueError, struct.error, OSError, MemoryError)
_SAVED_EVERY_S = 1.0
_SHARE = 20  # saving takes at most so small a part of the time


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
        self._saved: dict[str, tuple[int, int, str]] = {}  # name to base, bytes, header
        self._new: dict[str, tuple[bytes, str]] = {}  # name to blocks, header
        self._seen: tuple[int, int, int] | None = None
        self._saved_at, self._cost_s = time.monotonic(), 0.0
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def load(self, name: str) -> tuple[Any, int, int] | None:
        """Return the header of a file's index, and where its blocks begin and their bytes; `None` if it is not saved.

        Raises:
            ValueError: The header is damaged.
        """
        with self._lock:
            self._refresh()
            found = self._saved.get(_key(name))
        return None if found is None else (json.loads(found[2]), *found[:2])

    def add(self, name: str, header: dict[str, Any], blocks: bytes) -> None:
        """Add the index of a file, or replace it; save all of them from time to time.

        Raises:
            OSError: They cannot be saved.
        """
        with self._lock:
            self._new[_key(name)] = blocks, json.dumps(header, separators=(",", ":"))
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
        lines = [f"{n_bytes}\t{name}\t{header}\n" for name, (_, n_bytes, header) in kept.items()]
        lines += [f"{len(blocks)}\t{name}\t{header}\n" for name, (blocks, header) in new.items()]
        text = "".join(lines).encode()
        start = _START.pack(_MAGIC, len(text), zlib.crc32(text)) + text
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        try:
            added = (blocks for blocks, _ in new.values())
            chunks = itertools.chain((start,), self._blocks([found[:2] for found in kept.values()]), added)
            write_chunks(Path(self.path), chunks, sync_to_disk=False)
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
            with open_patiently(lambda: open(self.path, "rb")) as file:
                magic, length, checksum = _START.unpack(file.read(_START.size))
                text = file.read(length) if magic == _MAGIC and length <= status.st_size else b""
            if magic != _MAGIC or len(text) != length or zlib.crc32(text) != checksum:
                raise ValueError("not indexes of this version, or their table is damaged")
            found, base = {}, _START.size + length
            for line in text.decode().split("\n")[:-1]:
                n_bytes, name, header = line.split("\t")
                found[name] = base, int(n_bytes), header
                base += int(n_bytes)
            if base != status.st_size:
                raise ValueError(f"expected {base} bytes, found {status.st_size}")
            self._saved = found
        except (FileNotFoundError, NotADirectoryError):
            self._saved = {}
        except _UNUSABLE as error:
            _LOG.warning("ignored the indexes %s: %s", self.path, error)


def _key(name: str) -> str:
    return json.dumps(name)  # no tabs, no line ends, and ASCII
