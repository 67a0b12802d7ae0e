"""The journal beside a growing file: sizes and CRCs of the blobs in the file.

Some formats store the positions of their records in a table that is written last, so an unfinished file does not
locate its records. The journal does, and each of its entries has a checksum, so that an entry torn by a crash is
detected. Only the version that wrote a journal reads it, so its layout may change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import open_unbuffered, sync, write_all, write_bytes

__all__ = ["Entries", "Journal", "count_sound", "read_checksums"]

_HEAD = Struct("<8sII")  # magic, sizes per entry, length of the JSON that follows; then the CRC-32 of all these bytes
_CHUNK_BYTES = 16 * 2**20
_MAX_SIZES = 2**24  # of a record: more would not fit in a dtype of NumPy


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a journal.

    Attributes:
        facts: What else the format saves about the file, as JSON.
        sizes: int64[n, k], bytes of each of the k blobs of each record.
        checksums: uint32[n], CRC-32 of all bytes of each record.
    """

    facts: dict[str, Any]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n], bytes of each record."""
        lengths: NDArray[np.int64] = self.sizes.sum(axis=1)
        return lengths

    @property
    def n_bytes(self) -> int:
        """Bytes of all records."""
        return int(self.sizes.sum())

    def first(self, count: int) -> Entries:
        """Return the first `count` entries."""
        return Entries(self.facts, self.sizes[:count], self.checksums[:count])

    @classmethod
    def none(cls, facts: dict[str, Any], n_sizes: int) -> Entries:
        """Return no entries, for a file whose records will have `n_sizes` blobs each."""
        return cls(facts, np.zeros((0, n_sizes), np.int64), np.zeros(0, np.uint32))


class Journal:
    """An open journal, to which entries are appended. Repeating a write after an error is safe.

    Args:
        path: The file, in the folder of the data; an existing file is replaced.
        magic: 8 bytes that identify the format.
        entries: The first entries.
    """

    def __init__(self, path: Path, magic: bytes, entries: Entries) -> None:
        self.path = path
        self.n_entries: int = len(entries)
        n_sizes = entries.sizes.shape[1]
        head = _pack_head(magic, n_sizes, entries.facts)
        self._base, self._entry_bytes = len(head), _entry(n_sizes).itemsize
        self._names_synced = False
        # Atomically: a crash must not lose entries of a resumed file.
        write_bytes(path, head + _pack_entries(0, entries.sizes, entries.checksums))
        self._file = open_unbuffered(path)
        self._descriptor = self._file.fileno()

    def append(self, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Append entries, int64[n, k] and uint32[n], and hand them to the operating system."""
        packed = _pack_entries(self.n_entries, sizes, checksums)
        write_all(self._descriptor, packed, self._base + self.n_entries * self._entry_bytes)
        self.n_entries += len(sizes)

    def sync(self) -> None:
        """Sync the journal to the disk, and at the first call also the names in its folder."""
        os.fsync(self._descriptor)
        if not self._names_synced:
            sync(self.path.parent)
            self._names_synced = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def load(
        path: Path, magic: bytes, fits: Callable[[Mapping[str, Any], int], bool] = lambda _facts, _n_sizes: True
    ) -> Entries | None:
        """Return the sound entries at the front of a journal; `None` if its head is not sound.

        Args:
            path: The journal.
            magic: 8 bytes that identify the format.
            fits: Returns True if the format saves such facts, with so many sizes per entry.
        """
        data = path.read_bytes() if path.is_file() else b""
        head = _parse_head(data, magic)
        if head is None:
            return None
        base, n_sizes, facts = head
        if not 0 < n_sizes <= _MAX_SIZES or not isinstance(facts, dict) or not fits(facts, n_sizes):
            return None
        entry = _entry(n_sizes)
        rows = np.frombuffer(data, entry, (len(data) - base) // entry.itemsize, base)
        sizes, checksums = rows["sizes"].astype(np.int64), rows["checksum"].astype(np.uint32)
        wrong = np.flatnonzero((rows["check"] != _checks(0, sizes, checksums)) | (sizes < 0).any(axis=1))
        return Entries(facts, sizes, checksums).first(int(wrong[0]) if len(wrong) else len(rows))


def count_sound(descriptor: int, base: int, entries: Entries) -> int:
    """Return how many records at the front are whole and match their CRC in the journal.

    Args:
        descriptor: The data file; read up to the first record that is not sound.
        base: The byte offset of the first record; the others follow back to back.
        entries: The entries of the journal.
    """
    lengths, size = entries.lengths, os.fstat(descriptor).st_size
    whole = int(np.searchsorted(base + np.cumsum(lengths), size, side="right"))
    done = 0
    for computed in read_checksums(descriptor, base, lengths[:whole]):
        wrong = np.flatnonzero(computed != entries.checksums[done : done + len(computed)])
        if len(wrong):
            return done + int(wrong[0])
        done += len(computed)
    return whole


def read_checksums(descriptor: int, base: int, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.uint32]]:
    """Yield the CRC-32 of blobs of these lengths, back to back from byte `base`, about 16 MB at a time."""
    ends = base + np.cumsum(lengths)
    done, start = 0, base
    while done < len(lengths):
        # At least one, of any length.
        stop = max(done + 1, int(np.searchsorted(ends, start + _CHUNK_BYTES, side="right")))
        yield _read_chunk(descriptor, start, lengths[done:stop])
        done, start = stop, int(ends[stop - 1])


def _read_chunk(descriptor: int, start: int, lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    if len(lengths) == 1:
        value, stop = 0, start + int(lengths[0])
        while start < stop and (piece := os.pread(descriptor, min(_CHUNK_BYTES, stop - start), start)):
            value, start = crc32(piece, value), start + len(piece)
        return np.array([value], np.uint32)
    data = os.pread(descriptor, int(lengths.sum()), start)
    return crc32_extents(data, np.cumsum(lengths) - lengths, lengths)


def _pack_head(magic: bytes, n_sizes: int, facts: dict[str, Any]) -> bytes:
    text = json.dumps(facts).encode()
    head = _HEAD.pack(magic, n_sizes, len(text)) + text
    return head + crc32(head).to_bytes(4, "little")


def _parse_head(data: bytes, magic: bytes) -> tuple[int, int, Any] | None:
    """Return (bytes of the head, sizes per entry, facts); `None` if the head is not sound."""
    if len(data) < _HEAD.size:
        return None
    found, n_sizes, length = _HEAD.unpack_from(data)
    end = _HEAD.size + length
    if found != magic or data[end : end + 4] != crc32(data[:end]).to_bytes(4, "little"):
        return None
    try:
        return end + 4, n_sizes, json.loads(data[_HEAD.size : end])
    except (ValueError, RecursionError):
        return None


def _entry(n_sizes: int) -> np.dtype[Any]:
    return np.dtype([("sizes", "<i8", (n_sizes,)), ("checksum", "<u4"), ("check", "<u4")])


def _pack_entries(first: int, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> bytes:
    rows = np.empty(len(sizes), _entry(sizes.shape[1]))
    rows["sizes"], rows["checksum"] = sizes, checksums
    rows["check"] = _checks(first, sizes, checksums)
    return rows.tobytes()


def _checks(first: int, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    # The number is not stored, but the checksum covers it: a misplaced entry does not match.
    rows = np.empty(len(sizes), [("number", "<i8"), ("sizes", "<i8", (sizes.shape[1],)), ("checksum", "<u4")])
    rows["number"] = np.arange(first, first + len(sizes))
    rows["sizes"], rows["checksum"] = sizes, checksums
    starts = np.arange(len(rows), dtype=np.int64) * rows.itemsize
    return crc32_extents(rows.tobytes(), starts, np.full(len(rows), rows.itemsize, np.int64))
