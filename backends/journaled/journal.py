"""The journal beside a growing file: sizes and CRCs of the blobs in the file.

Some formats store the positions of their records in a table that is written last, so an unfinished file does not
locate its records. The journal does, and each of its entries has a checksum, so that an entry torn by a crash is
detected. It is read in blocks, to write that table and to resume: so the memory of a writer does not grow with the
records. Only the version that wrote a journal reads it, so its layout may change.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import open_unbuffered, sync, write_all, write_chunks

_HEAD = Struct("<8sII")  # magic, sizes per entry, length of the JSON that follows; then the CRC-32 of all these bytes
_MAX_SIZES = 2**24  # sizes of a record: more would not fit in a dtype of NumPy
_BLOCK_BYTES = 2**20  # bytes of the journal read at once: arrays of that size stay in the processor's cache
_CHUNK_BYTES = 16 * 2**20  # bytes of the data read at once


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Consecutive entries of a journal.

    Attributes:
        sizes: int64[n, k], bytes of each of the k blobs of each record.
        checksums: uint32[n], CRC-32 of all bytes of each record.
    """

    sizes: NDArray[np.int64]
    checksums: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n], bytes of each record."""
        lengths: NDArray[np.int64] = np.add.reduce(self.sizes, axis=1)
        return lengths

    @property
    def n_bytes(self) -> int:
        """Bytes of all records."""
        return int(np.add.reduce(self.sizes, axis=None))

    def first(self, count: int) -> Entries:
        """Return the first `count` entries."""
        return Entries(self.sizes[:count], self.checksums[:count])

    @classmethod
    def join(cls, parts: Iterable[Entries], n_sizes: int) -> Entries:
        """Return all entries of consecutive parts, with `n_sizes` sizes each."""
        found = [cls(np.zeros((0, n_sizes), np.int64), np.zeros(0, np.uint32)), *parts]
        return cls(np.concatenate([part.sizes for part in found]), np.concatenate([part.checksums for part in found]))


class Journal:
    """An open journal, to which entries are appended. Repeating a write after an error is safe.

    Args:
        path: The file, in the folder of the data; an existing file is replaced.
        magic: 8 bytes that identify the format.
        metadata: Further metadata that the format saves about the file, as JSON.
        n_sizes: Blobs of each record.
        entries: The first entries, in blocks; they may come from the file that is replaced.

    Attributes:
        path: The file.
        metadata: The metadata that the format saves.
        n_sizes: Blobs of each record.
        n_entries: The number of entries.
        n_bytes: Bytes of all records.
    """

    def __init__(
        self, path: Path, magic: bytes, metadata: dict[str, Any], n_sizes: int, entries: Iterable[Entries] = ()
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.n_sizes = n_sizes
        self.n_entries: int = 0
        self.n_bytes: int = 0
        self._checksum = 0  # checksum of all entries, in the order of writing
        self._names_synced = False
        head = _pack_head(magic, n_sizes, metadata)
        self._base = len(head)
        # Atomically and synced: a crash must neither lose entries of a resumed file, nor leave data without a journal.
        write_chunks(path, itertools.chain([head], map(self._packed, entries)))
        self._file = open_unbuffered(path)
        self._descriptor = self._file.fileno()

    def append(self, entries: Entries) -> None:
        """Append entries, and hand them to the operating system."""
        packed = _pack_entries(self.n_entries, entries)
        write_all(self._descriptor, packed, self._base + self.n_entries * _entry(self.n_sizes).itemsize)
        self._count(entries, packed)

    def entries(self) -> Iterator[Entries]:
        """Yield all entries, in blocks.

        Raises:
            FormatError: They are not as they were written; after the last block.
        """
        checksum = 0
        for data in _read_blocks(self._descriptor, self._base, self.n_entries, self.n_sizes):
            checksum = crc32(data, checksum)
            yield _parse_entries(data, self.n_sizes)[0]
        if checksum != self._checksum:
            what, remedy = "the journal is not as it was written", "Continue with resume=True"
            raise FormatError(what, path=str(self.path), remedy=remedy)

    def sync(self) -> None:
        """Sync the journal to the disk, and at the first call also the names in its folder."""
        os.fsync(self._descriptor)
        if not self._names_synced:
            sync(self.path.parent)
            self._names_synced = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _packed(self, entries: Entries) -> bytes:
        packed = _pack_entries(self.n_entries, entries)
        self._count(entries, packed)
        return packed

    def _count(self, entries: Entries, packed: bytes) -> None:
        self._checksum = crc32(packed, self._checksum)
        self.n_bytes += entries.n_bytes
        self.n_entries += len(entries)


@dataclass(frozen=True, slots=True)
class StoredJournal:
    """The journal that a writer left.

    Attributes:
        path: The file.
        metadata: The metadata that the format saved about the data.
        n_sizes: Blobs of each record.
        base: The byte at which the first entry begins.
        n_listed: Entries that are whole; a torn or a wrong one may be among them.
    """

    path: Path
    metadata: dict[str, Any]
    n_sizes: int
    base: int
    n_listed: int

    @classmethod
    def find(
        cls, path: Path, magic: bytes, fits: Callable[[Mapping[str, Any], int], bool] = lambda _metadata, _n_sizes: True
    ) -> StoredJournal | None:
        """Return the journal at a path; `None` if it is missing, or its head is not sound.

        Args:
            path: The journal.
            magic: 8 bytes that identify the format.
            fits: Returns True if the format saves such metadata, with this number of sizes per entry.
        """
        if not path.is_file():
            return None
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = _read_head(file, size, magic)
        if head is None:
            return None
        base, n_sizes, metadata = head
        if not 0 < n_sizes <= _MAX_SIZES or not isinstance(metadata, dict) or not fits(metadata, n_sizes):
            return None
        return cls(path, metadata, n_sizes, base, (size - base) // _entry(n_sizes).itemsize)

    def entries(self) -> Iterator[Entries]:
        """Yield the sound entries at the front, in blocks."""
        done = 0
        with self.path.open("rb", buffering=0) as file:
            for data in _read_blocks(file.fileno(), self.base, self.n_listed, self.n_sizes):
                entries, checks = _parse_entries(data, self.n_sizes)
                wrong = np.flatnonzero((checks != _checks(done, entries)) | (entries.sizes < 0).any(axis=1))
                if len(wrong):
                    yield entries.first(int(wrong[0]))
                    return
                yield entries
                done += len(entries)

    def load(self) -> Entries:
        """Return all sound entries at the front."""
        return Entries.join(self.entries(), self.n_sizes)


def sound_entries(descriptor: int, base: int, entries: Iterable[Entries]) -> Iterator[Entries]:
    """Yield the entries at the front whose records are whole and match their CRC.

    Args:
        descriptor: The data file; read up to the first record that is not sound.
        base: The byte offset of the first record; the others follow back to back.
        entries: The entries of the journal, in blocks.
    """
    size = os.fstat(descriptor).st_size
    for block in entries:
        lengths = block.lengths
        ends = base + np.cumsum(lengths)
        whole = int(np.searchsorted(ends, size, side="right"))
        n_sound = 0
        for computed in read_checksums(descriptor, base, lengths[:whole]):
            wrong = np.flatnonzero(computed != block.checksums[n_sound : n_sound + len(computed)])
            n_sound += int(wrong[0]) if len(wrong) else len(computed)
            if len(wrong):
                break
        yield block.first(n_sound)
        if n_sound < len(block):
            return
        base = int(ends[-1]) if len(ends) else base


def read_checksums(descriptor: int, base: int, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.uint32]]:
    """Yield the CRC-32 of blobs of these lengths, back to back from byte `base`, about 16 MB at a time."""
    ends = base + np.cumsum(lengths)
    done, start = 0, base
    while done < len(lengths):
        # A chunk has at least one blob, of any length.
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


def _pack_head(magic: bytes, n_sizes: int, metadata: dict[str, Any]) -> bytes:
    text = json.dumps(metadata).encode()
    head = _HEAD.pack(magic, n_sizes, len(text)) + text
    return head + crc32(head).to_bytes(4, "little")


def _read_head(file: IO[bytes], size: int, magic: bytes) -> tuple[int, int, Any] | None:
    """Return (bytes of the head, sizes per entry, metadata); `None` if the head is not sound."""
    start = file.read(_HEAD.size)
    if len(start) < _HEAD.size:
        return None
    found, n_sizes, length = _HEAD.unpack(start)
    text = file.read(min(length, size))
    if found != magic or file.read(4) != crc32(start + text).to_bytes(4, "little"):
        return None
    try:
        return _HEAD.size + length + 4, n_sizes, json.loads(text)
    except (ValueError, RecursionError):
        return None


def _entry(n_sizes: int) -> np.dtype[Any]:
    return np.dtype([("sizes", "<i8", (n_sizes,)), ("checksum", "<u4"), ("check", "<u4")])


def _read_blocks(descriptor: int, base: int, n_entries: int, n_sizes: int) -> Iterator[bytes]:
    entry_bytes = _entry(n_sizes).itemsize
    step = max(1, _BLOCK_BYTES // entry_bytes)
    for first in range(0, n_entries, step):
        yield os.pread(descriptor, entry_bytes * min(step, n_entries - first), base + entry_bytes * first)


def _parse_entries(data: bytes, n_sizes: int) -> tuple[Entries, NDArray[np.uint32]]:
    """Return entries, and the check of each as stored."""
    entry = _entry(n_sizes)
    rows = np.frombuffer(data, entry, len(data) // entry.itemsize)
    return Entries(rows["sizes"].astype(np.int64), rows["checksum"].astype(np.uint32)), rows["check"]


def _pack_entries(first: int, entries: Entries) -> bytes:
    rows = np.empty(len(entries), _entry(entries.sizes.shape[1]))
    rows["sizes"], rows["checksum"] = entries.sizes, entries.checksums
    rows["check"] = _checks(first, entries)
    return rows.tobytes()


def _checks(first: int, entries: Entries) -> NDArray[np.uint32]:
    # The number is not stored, but the checksum covers it: a misplaced entry does not match.
    n_sizes = entries.sizes.shape[1]
    rows = np.empty(len(entries), [("number", "<i8"), ("sizes", "<i8", (n_sizes,)), ("checksum", "<u4")])
    rows["number"] = np.arange(first, first + len(entries))
    rows["sizes"], rows["checksum"] = entries.sizes, entries.checksums
    starts = np.arange(len(rows), dtype=np.int64) * rows.itemsize
    return crc32_extents(rows.tobytes(), starts, np.full(len(rows), rows.itemsize, np.int64))
