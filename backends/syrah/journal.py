"""The journal beside an unfinished file: sizes and CRCs of the items that it holds so far.

Syrah says only at its end where the arrays are, so a file that is not closed says nothing of its items. The journal
does, and each of its entries has a checksum of its own: what was torn by a crash shows.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import write_bytes

__all__ = ["Entries", "Journal", "write_all"]

_HEAD = Struct("<8sII")  # magic, length of the JSON behind it, CRC-32 of that
_MAGIC = b"SYRJRNL1"


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal tells.

    Attributes:
        dtypes: Array name to dtype, in the order in which an item's arrays lie.
        sizes: int64[n, k], bytes of each of the k arrays of each item.
        checksums: uint32[n], CRC-32 of all bytes of each item.
    """

    dtypes: dict[str, str]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """Bytes of all items."""
        return int(self.sizes.sum())

    def first(self, count: int) -> Entries:
        """Return the first `count` of them."""
        return Entries(self.dtypes, self.sizes[:count], self.checksums[:count])

    @classmethod
    def none(cls, dtypes: dict[str, str]) -> Entries:
        """Return those of a file without items."""
        return cls(dtypes, np.zeros((0, len(dtypes)), np.int64), np.zeros(0, np.uint32))


class Journal:
    """An open journal, to which entries are appended. Writing the same again after an error is safe.

    Args:
        path: The file; what was there is replaced.
        entries: What it holds to begin with.
    """

    def __init__(self, path: Path, entries: Entries) -> None:
        self.path = path
        self._entry_bytes = _entry(len(entries.dtypes)).itemsize
        head = _pack_head(entries.dtypes)
        self._base = len(head)
        # In one step: a crash while the entries of a resumed file are written must not lose any of them.
        write_bytes(path, head + _pack_entries(0, entries.sizes, entries.checksums))
        self.n_entries = len(entries)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def append(self, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Append entries, int64[n, k] and uint32[n], and hand them to the operating system."""
        packed = _pack_entries(self.n_entries, sizes, checksums)
        write_all(self._descriptor, packed, self._base + self.n_entries * self._entry_bytes)
        self.n_entries += len(sizes)

    def sync(self) -> None:
        """Bring it onto the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    @staticmethod
    def load(path: Path) -> Entries | None:
        """Return the sound entries at the front of a journal; `None` where not even its head is there."""
        data = path.read_bytes() if path.is_file() else b""
        dtypes = _parse_head(data)
        if not dtypes:
            return None
        base, entry = len(_pack_head(dtypes)), _entry(len(dtypes))
        rows = np.frombuffer(data, entry, (len(data) - base) // entry.itemsize, base)
        sizes, checksums = rows["sizes"].astype(np.int64), rows["checksum"].astype(np.uint32)
        wrong = np.flatnonzero((rows["check"] != _checks(0, sizes, checksums)) | (sizes < 0).any(axis=1))
        return Entries(dtypes, sizes, checksums).first(int(wrong[0]) if len(wrong) else len(rows))


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of `data` at byte `offset`; the system may take less than it was given in one call."""
    rest = memoryview(data)
    while len(rest):
        n = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n:], offset + n


def _entry(n_arrays: int) -> np.dtype[Any]:
    return np.dtype([("sizes", "<i8", (n_arrays,)), ("checksum", "<u4"), ("check", "<u4")])


def _pack_head(dtypes: dict[str, str]) -> bytes:
    text = json.dumps(dtypes).encode()
    return _HEAD.pack(_MAGIC, len(text), crc32(text)) + text


def _parse_head(data: bytes) -> dict[str, str] | None:
    if len(data) < _HEAD.size:
        return None
    magic, length, checksum = _HEAD.unpack_from(data)
    text = data[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(text) != length or crc32(text) != checksum:
        return None
    dtypes: dict[str, str] = json.loads(text)
    return dtypes


def _pack_entries(first: int, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> bytes:
    rows = np.empty(len(sizes), _entry(sizes.shape[1]))
    rows["sizes"], rows["checksum"] = sizes, checksums
    rows["check"] = _checks(first, sizes, checksums)
    return rows.tobytes()


def _checks(first: int, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    # The number is not stored, but is in the checksum: an entry at another place is no entry.
    rows = np.empty(len(sizes), [("number", "<i8"), ("sizes", "<i8", (sizes.shape[1],)), ("checksum", "<u4")])
    rows["number"] = np.arange(first, first + len(sizes))
    rows["sizes"], rows["checksum"] = sizes, checksums
    starts = np.arange(len(rows), dtype=np.int64) * rows.itemsize
    return crc32_extents(rows.tobytes(), starts, np.full(len(rows), rows.itemsize, np.int64))
