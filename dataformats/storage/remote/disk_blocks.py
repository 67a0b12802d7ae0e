"""Blocks of remote files in a folder of the local disk, which processes share."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.kernels import crc32
from dataformats.storage.file_lock import FileLock

__all__ = ["DiskBlocks"]

_SUFFIX = ".block"
_CHECKSUM_BYTES = 4
_NUMBERS = itertools.count()
_STALE_S = 3600.0


class DiskBlocks:
    """Blocks in files: each has the CRC-32 of the block's name and bytes in front of the bytes. Thread-safe.

    A file appears whole, under a name that the block's name gives, and never changes. So processes need no lock to read
    and to write; one that is deleted meanwhile is a missing block. If the files exceed the limit, the least recently
    used are deleted, by one process at a time. A damaged file is a missing block, and is replaced.

    Args:
        folder: Made if it is missing. Other files in it are left alone.
        limit_bytes: The most bytes of all files; exceeded at most by a sixteenth for each process that writes.

    Raises:
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._unchecked_bytes = limit_bytes  # written since the size of the folder was last computed
        folder.mkdir(parents=True, exist_ok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return DiskBlocks, (self.folder, self.limit_bytes)

    def get(self, name: str) -> bytes | None:
        """Return a block; `None` if it is missing or damaged."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            os.utime(path)  # it was used now
        except OSError:
            return None
        block = data[_CHECKSUM_BYTES:]
        return block if data[:_CHECKSUM_BYTES] == _checksum(name, block) else None

    def put(self, blocks: Mapping[str, bytes]) -> None:
        """Keep these blocks, as far as the disk has room; an error of the disk is no error of the read."""
        for name, block in blocks.items():
            if self._unchecked_bytes >= self.limit_bytes // 16 and not self._evict():
                return  # another process deletes files at this moment
            path = self._path(name)
            temporary = path.with_suffix(f".{os.getpid()}-{next(_NUMBERS)}.partial")
            try:
                temporary.write_bytes(_checksum(name, block) + block)
                temporary.replace(path)
            except OSError:
                with suppress(OSError):
                    temporary.unlink()
                return
            self._unchecked_bytes += len(block)

    def _evict(self) -> bool:
        """Bring the files below the limit, unless another process does; return True if this one did."""
        try:
            lock = FileLock(self.folder / "lock", create=True)
        except OSError:
            return False
        try:
            self._unchecked_bytes = 0
            self._delete_oldest()
        finally:
            lock.release()
        return True

    def _delete_oldest(self) -> None:
        """Delete the least recently used files until a sixteenth of the limit is free."""
        files = []
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # deleted meanwhile
                info = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    files.append((info.st_mtime_ns, info.st_size, entry.path))
                elif entry.name.endswith(".partial") and time.time() - info.st_mtime > _STALE_S:
                    os.unlink(entry.path)  # a process was killed
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit_bytes - self.limit_bytes // 16:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size

    def _path(self, name: str) -> Path:
        return self.folder / (hashlib.blake2b(name.encode(), digest_size=20).hexdigest() + _SUFFIX)


def _checksum(name: str, block: bytes) -> bytes:
    return int(crc32(block, crc32(name.encode()))).to_bytes(_CHECKSUM_BYTES, "little")
