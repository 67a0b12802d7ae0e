"""The journal beside an unfinished file: lengths and CRCs of the records that it holds so far.

FFRecord has its table in front of the data, so a file that is not closed says nothing of its records. The
journal does, and each of its entries has a checksum of its own: what was torn by a crash shows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import write_bytes

__all__ = ["Entries", "Journal", "write_all"]

_HEAD = Struct("<8sqI")  # magic, where the data begin, CRC-32 of both
_MAGIC = b"FFRJRNL1"
_ENTRY = np.dtype([("length", "<i8"), ("checksum", "<u4"), ("check", "<u4")])
# The number is not stored, but is in the checksum: an entry at another place is no entry.
_CHECKED = np.dtype([("number", "<i8"), ("length", "<i8"), ("checksum", "<u4")])


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal tells.

    Attributes:
        base: Where in the data file the first record begins.
        lengths: int64[n], bytes of each record.
        checksums: uint32[n], its CRC-32.
    """

    base: int
    lengths: NDArray[np.int64]
    checksums: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def n_bytes(self) -> int:
        """Bytes of all records."""
        return int(self.lengths.sum())

    def first(self, count: int) -> Entries:
        """Return the first `count` of them."""
        return Entries(self.base, self.lengths[:count], self.checksums[:count])


class Journal:
    """An open journal, to which entries are appended. Writing the same again after an error is safe.

    Args:
        path: The file; what was there is replaced.
        entries: What it holds to begin with.
    """

    def __init__(self, path: Path, entries: Entries) -> None:
        self.path = path
        # In one step: a crash while the entries of a resumed file are written must not lose any of them.
        write_bytes(path, _pack_head(entries.base) + _pack_entries(0, entries.lengths, entries.checksums))
        self.n_entries = len(entries)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def append(self, lengths: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Append entries and hand them to the operating system."""
        packed = _pack_entries(self.n_entries, lengths, checksums)
        write_all(self._descriptor, packed, _HEAD.size + self.n_entries * _ENTRY.itemsize)
        self.n_entries += len(lengths)

    def sync(self) -> None:
        """Bring it onto the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    @staticmethod
    def load(path: Path) -> Entries | None:
        """Return the sound entries at the front of a journal; `None` where not even its head is there."""
        if not path.is_file():
            return None
        data = path.read_bytes()
        if len(data) < _HEAD.size:
            return None
        _, base, _ = _HEAD.unpack_from(data)
        if data[: _HEAD.size] != _pack_head(base):
            return None
        rows = np.frombuffer(data, _ENTRY, (len(data) - _HEAD.size) // _ENTRY.itemsize, _HEAD.size)
        lengths, checksums = rows["length"].astype(np.int64), rows["checksum"].astype(np.uint32)
        wrong = np.flatnonzero((rows["check"] != _checks(0, lengths, checksums)) | (lengths < 0))
        sound = int(wrong[0]) if len(wrong) else len(rows)
        return Entries(base, lengths, checksums).first(sound)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of `data` at byte `offset`; the system may take less than it was given in one call."""
    rest = memoryview(data)
    while len(rest):
        n = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[n:], offset + n


def _pack_head(base: int) -> bytes:
    head = _HEAD.pack(_MAGIC, base, 0)[:-4]
    return head + crc32(head).to_bytes(4, "little")


def _pack_entries(first: int, lengths: NDArray[np.int64], checksums: NDArray[np.uint32]) -> bytes:
    rows = np.empty(len(lengths), _ENTRY)
    rows["length"], rows["checksum"] = lengths, checksums
    rows["check"] = _checks(first, lengths, checksums)
    return rows.tobytes()


def _checks(first: int, lengths: NDArray[np.int64], checksums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    rows = np.empty(len(lengths), _CHECKED)
    rows["number"] = np.arange(first, first + len(lengths))
    rows["length"], rows["checksum"] = lengths, checksums
    starts = np.arange(len(rows), dtype=np.int64) * _CHECKED.itemsize
    return crc32_extents(rows.tobytes(), starts, np.full(len(rows), _CHECKED.itemsize, np.int64))
