"""RecordJournal: shows a resume which bytes of growing files are as written, and where their records lie.

After a loss of power, a file that was not synced may have its new size, and zeros or older bytes. So a journal lists
what was appended, with a CRC-32, and a resume keeps what matches. An entry covers one record, if the file itself does
not show where its records lie, or all bytes of one flush. Each entry has a checksum, so that an entry torn by a crash
is detected. Entries are read in blocks: the memory of a writer does not grow with the records.

The head of a journal is on the disk before the first byte of the data, so data without a journal are complete, or of
another program. Only the version that wrote a journal reads it, so its layout may change.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, SpecError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32, crc32_extents, crc32_items
from dataformats.storage import atomic

_MAGIC = b"RECJRNL1"
_HEAD = Struct("<8sI")  # magic, length of the JSON that follows; then the CRC-32 of all these bytes
_MAX_SIZES = 2**24  # sizes of an entry: more would not fit in a dtype of NumPy
_MAX_BYTES = 2**46  # the most of a blob: the sums of a block fit in an int64
_BLOCK_BYTES = 2**20  # bytes of the journal read at once: arrays of that size stay in the processor's cache
_CHUNK_BYTES = 16 * 2**20  # bytes of the data read at once


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Consecutive entries of a journal.

    Attributes:
        sizes: int64[n, k], bytes of each of the k blobs of each record; of several files, bytes appended to each.
        checksums: uint32[n, files], CRC-32 of the bytes appended to each file.
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
    def file_bytes(self) -> NDArray[np.int64]:
        """int64[n, files], bytes appended to each file."""
        return self.lengths[:, None] if self.checksums.shape[1] == 1 else self.sizes

    def first(self, count: int) -> Entries:
        """Return the first `count` entries."""
        return Entries(self.sizes[:count], self.checksums[:count])

    @classmethod
    def of_records(cls, blobs: Sequence[bytes | memoryview], n_sizes: int = 1) -> Entries:
        """Return an entry for each record of `n_sizes` blobs."""
        sizes = np.fromiter(map(len, blobs), np.int64, len(blobs)).reshape(-1, n_sizes)
        return cls(sizes, crc32_items(blobs, len(sizes))[:, None])

    @classmethod
    def of_files(cls, *parts: Sequence[bytes | memoryview]) -> Entries:
        """Return one entry for the parts that are appended to each file."""
        sizes = [sum(map(len, appended)) for appended in parts]
        return cls(np.array([sizes]), np.concatenate([crc32_items(appended, 1) for appended in parts])[None])

    @classmethod
    def join(cls, parts: Iterable[Entries], n_sizes: int, n_files: int = 1) -> Entries:
        """Return all entries of consecutive parts."""
        found = [cls(np.zeros((0, n_sizes), np.int64), np.zeros((0, n_files), np.uint32)), *parts]
        return cls(np.concatenate([part.sizes for part in found]), np.concatenate([part.checksums for part in found]))


@dataclass(frozen=True, slots=True)
class StoredJournal:
    """The journal that a writer left.

    Attributes:
        path: The file.
        metadata: What the format saved about the data, as JSON.
        n_sizes: Sizes of each entry.
        bases: Bytes of each file in front of the first entry.
        start: The byte at which the first entry begins.
        n_listed: Entries that are whole; a torn or a wrong one may be among them.
    """

    path: Path
    metadata: Mapping[str, Any]
    n_sizes: int
    bases: Sequence[int]
    start: int
    n_listed: int

    @classmethod
    def find(cls, path: Path) -> StoredJournal | None:
        """Return the journal at a path; `None` if it is missing, or its head is not sound."""
        if not path.is_file():
            return None
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found = _read_head(file, size)
        if found is None:
            return None
        start, head = found
        n_listed = (size - start) // _entry(head["sizes"], len(head["bases"])).itemsize
        return cls(path, head["metadata"], head["sizes"], head["bases"], start, n_listed)

    def entries(self) -> Iterator[Entries]:
        """Yield the sound entries at the front, in blocks."""
        done, entry = 0, _entry(self.n_sizes, len(self.bases))
        with self.path.open("rb", buffering=0) as file:
            for data in _read_blocks(file.fileno(), self.start, self.n_listed, entry):
                rows = np.frombuffer(data, entry, len(data) // entry.itemsize)
                is_possible = ((rows["sizes"] >= 0) & (rows["sizes"] < _MAX_BYTES)).all(axis=1)
                wrong = np.flatnonzero((rows["check"] != _checks(done, rows)) | ~is_possible)
                yield _entries(rows[: wrong[0]] if len(wrong) else rows)
                if len(wrong):
                    return
                done += len(rows)

    def load(self) -> Entries:
        """Return all sound entries at the front."""
        return Entries.join(self.entries(), self.n_sizes, len(self.bases))


class RecordJournal:
    """The journal of growing files. Repeating a write after an error is safe.

    Args:
        path: The journal, in the folder of the data.
        files: The growing files.
        n_sizes: Sizes of an entry: blobs of each record in one file, or the number of files.
        metadata: What the format saves about the data, as JSON.
        bases: Bytes of each file in front of the first entry; by default, none.

    Attributes:
        path: The journal.
        bases: Bytes of each file in front of the first entry.
        sizes: Bytes of each file up to the end of the last entry.
        n_entries: The number of entries.
        is_found: True if `resume` found a journal.
        unlisted: Entries of bytes that are written, or about to be; `append` writes them.
    """

    def __init__(
        self,
        path: Path,
        files: Sequence[Path],
        *,
        n_sizes: int = 1,
        metadata: Mapping[str, Any] | None = None,
        bases: Sequence[int] | None = None,
    ) -> None:
        self.path = path
        self.bases: list[int] = [*(bases or [0] * len(files))]
        self.sizes: list[int] = self.bases
        self.n_entries: int = 0
        self.is_found: bool = False
        self._files, self._n_sizes, self._metadata = files, n_sizes, metadata or {}
        self._entry = _entry(n_sizes, len(files))
        self.unlisted: Sequence[Entries] = []
        self._file: FileIO | None = None
        self._start = 0  # the byte at which the first entry begins
        self._checksum = 0  # checksum of all entries, in the order of writing

    def covers(self, sizes: Sequence[int]) -> bool:
        """Return True if the entries end where files of these sizes do, as between two appends."""
        return self._file is None or self.sizes == [*sizes]

    # ---- resuming

    def resume(self, moved: Callable[[StoredJournal], Sequence[int] | None] = lambda _: None) -> None:
        """Take over the entries at the front whose bytes are in the files, if there are a journal and all files.

        Args:
            moved: Returns where the first entry begins in each file if that is not where the journal says.

        Raises:
            FormatError: The journal is damaged.
            SpecError: It is of data with other metadata.
        """
        if not self.path.exists() or not all(file.exists() for file in self._files):
            return
        stored = StoredJournal.find(self.path)
        if stored is None:
            if not any(file.stat().st_size for file in self._files):
                return
            remedy = "Save the sound records with `dataformats repair`, or start again without resume=True"
            raise FormatError("the journal of the unfinished data is damaged", path=str(self.path), remedy=remedy)
        is_same = (stored.n_sizes, len(stored.bases)) == (self._n_sizes, len(self._files))
        if not is_same or [*stored.metadata.items()] != [*self._metadata.items()]:
            found = f"expected {stored.metadata}, found {dict(self._metadata)}"
            raise SpecError(f"cannot resume {str(self._files[0])!r}: {found}")
        self.is_found = True
        self.bases = self.sizes = [*(moved(stored) or stored.bases)]
        with ExitStack() as stack:
            files = [stack.enter_context(file.open("rb", buffering=0)).fileno() for file in self._files]
            for entries in sound_entries(files, self.bases, stored.entries()):
                self.n_entries, self.sizes = self._behind(entries)

    def cut(self) -> bool:
        """Cut off the bytes of the files behind the last entry; return True if there were any."""
        files = zip(self._files, self.sizes, strict=True) if self.is_found else ()
        longer = [(path, size) for path, size in files if path.stat().st_size > size]
        for path, size in longer:
            os.truncate(path, size)
        return bool(longer)

    # ---- writing

    def begin(self, sizes: Sequence[int]) -> None:
        """Write the head and the entries that are kept, before the first write to files of these sizes.

        A second call is a no-op.
        """
        if self._file is not None:
            return
        if self.sizes != [*sizes]:
            for file in self._files:
                atomic.sync(file)  # no entry covers these bytes
            self.bases = self.sizes = [*sizes]
            self.n_entries = 0
        head = _pack_head({"metadata": self._metadata, "sizes": self._n_sizes, "bases": self.bases})
        # Atomically and synced: a crash must neither lose entries of resumed data, nor leave data without a journal.
        atomic.write_chunks(self.path, itertools.chain([head], self._kept_rows()))
        self._start = len(head)
        self._file = atomic.open_unbuffered(self.path)

    def append(self) -> None:
        """Hand the entries to the operating system, after their bytes."""
        if self._file is not None and self.unlisted:
            entries = Entries.join(self.unlisted, self._n_sizes, len(self._files))
            rows = _packed_rows(self.n_entries, entries, self._entry)
            atomic.write_all(self._file.fileno(), rows, self._start + self.n_entries * self._entry.itemsize)
            checksum = crc32(rows, self._checksum)
            n_entries, sizes = self._behind(entries)
            # No calls, so that an interrupt (Ctrl-C) comes before or after all of them.
            self.unlisted, self._checksum, self.n_entries, self.sizes = [], checksum, n_entries, sizes

    def sync(self, sizes: Sequence[int]) -> None:
        """Sync the journal to the disk, also the entries on which a resume relied; its files have these sizes."""
        self.begin(sizes)
        assert self._file is not None  # begun
        os.fsync(self._file.fileno())

    def entries(self) -> Iterator[Entries]:
        """Yield all entries, in blocks.

        Raises:
            FormatError: They are not as they were written; after the last block.
        """
        if self._file is None:
            return
        checksum = 0
        for data in _read_blocks(self._file.fileno(), self._start, self.n_entries, self._entry):
            checksum = crc32(data, checksum)
            yield _entries(np.frombuffer(data, self._entry, len(data) // self._entry.itemsize))
        if checksum != self._checksum:
            what, remedy = "the journal is not as it was written", "Continue with resume=True"
            raise FormatError(what, path=str(self.path), remedy=remedy)

    def close(self) -> None:
        """Close the journal; it stays for a resume."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the journal, also one that is half written."""
        self.close()
        atomic.remove(self.path, self.path.with_name(f"{self.path.name}.partial"))

    def _kept_rows(self) -> Iterator[bytes]:
        """Yield the first `n_entries` entries of the stored journal, packed."""
        done, self._checksum = 0, 0
        # Found again: a call that failed may have replaced the journal.
        stored = StoredJournal.find(self.path) if self.is_found else None
        blocks = iter(()) if stored is None else stored.entries()
        while done < self.n_entries:
            kept = next(blocks).first(self.n_entries - done)
            rows = _packed_rows(done, kept, self._entry)
            self._checksum = crc32(rows, self._checksum)
            yield rows
            done += len(kept)

    def _behind(self, entries: Entries) -> tuple[int, list[int]]:
        """Return the number of entries, and the bytes of each file, behind further entries."""
        added = np.add.reduce(entries.file_bytes, axis=0).tolist()
        return self.n_entries + len(entries), [size + more for size, more in zip(self.sizes, added, strict=True)]


def journal_path(path: Path) -> Path:
    """Return the path of the journal of an unfinished file."""
    return path.with_name(f"{path.name}.journal")


def interrupted_append(path: Path) -> RuntimeError:
    """Return the error of an append that an interrupt (Ctrl-C) left half done."""
    return RuntimeError(f"an append to {str(path)!r} was interrupted; continue with resume=True")


def journal_of(file: StoredFile) -> StoredJournal | None:
    """Return the journal of an unfinished local file; `None` without a journal whose head is sound."""
    return None if file.local is None else StoredJournal.find(journal_path(Path(file.local)))


def sound_entries(files: Sequence[int], bases: Sequence[int], entries: Iterable[Entries]) -> Iterator[Entries]:
    """Yield the entries at the front whose bytes are in the files, and match their CRCs.

    Args:
        files: Descriptors; read up to the first bytes that are not sound.
        bases: Where the bytes of the first entry begin in each file; the others follow back to back.
        entries: The entries of the journal, in blocks.
    """
    for block in entries:
        columns = zip(files, bases, block.file_bytes.T, block.checksums.T, strict=True)
        n = min(_count_sound(*column) for column in columns)
        yield block.first(n)
        if n < len(block):
            return
        bases = [base + int(added) for base, added in zip(bases, np.add.reduce(block.file_bytes, axis=0), strict=True)]


def _count_sound(descriptor: int, base: int, lengths: NDArray[np.int64], checksums: NDArray[np.uint32]) -> int:
    """Return how many blobs at the front, back to back from byte `base`, are whole and match their CRC."""
    ends, n = base + np.cumsum(lengths), 0
    size = max(base, os.fstat(descriptor).st_size)  # empty blobs need no byte
    whole = int(np.searchsorted(ends, size, side="right"))
    while n < whole:
        start = int(ends[n] - lengths[n])
        # A chunk has at least one blob, of any length.
        stop = min(whole, max(n + 1, int(np.searchsorted(ends, start + _CHUNK_BYTES, side="right"))))
        wrong = np.flatnonzero(_read_checksums(descriptor, start, lengths[n:stop]) != checksums[n:stop])
        if len(wrong):
            return n + int(wrong[0])
        n = stop
    return n


def _read_checksums(descriptor: int, start: int, lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    if len(lengths) == 1:
        value, stop = 0, start + int(lengths[0])
        while start < stop and (piece := os.pread(descriptor, min(_CHUNK_BYTES, stop - start), start)):
            value, start = crc32(piece, value), start + len(piece)
        return np.array([value], np.uint32)
    data = os.pread(descriptor, int(lengths.sum()), start)
    return crc32_extents(data, np.cumsum(lengths) - lengths, lengths)


def _pack_head(facts: Mapping[str, Any]) -> bytes:
    text = json.dumps(facts).encode()
    head = _HEAD.pack(_MAGIC, len(text)) + text
    return head + crc32(head).to_bytes(4, "little")


def _read_head(file: IO[bytes], size: int) -> tuple[int, Any] | None:
    """Return (bytes of the head, its facts); `None` if the head is not sound."""
    start = file.read(_HEAD.size)
    if len(start) < _HEAD.size:
        return None
    magic, length = _HEAD.unpack(start)
    text = file.read(min(length, size))
    if magic != _MAGIC or file.read(4) != crc32(start + text).to_bytes(4, "little"):
        return None
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (_HEAD.size + length + 4, facts) if _is_head(facts) else None


def _is_head(facts: Any) -> bool:
    if not isinstance(facts, dict) or not isinstance(facts.get("metadata"), dict):
        return False
    n_sizes, bases = facts.get("sizes"), facts.get("bases")
    if type(n_sizes) is not int or not isinstance(bases, list) or len(bases) not in (1, n_sizes):
        return False
    return 0 < n_sizes <= _MAX_SIZES and all(type(base) is int and 0 <= base < _MAX_BYTES for base in bases)


def _entry(n_sizes: int, n_files: int) -> np.dtype[Any]:
    return np.dtype([("sizes", "<i8", (n_sizes,)), ("checksums", "<u4", (n_files,)), ("check", "<u4")])


def _read_blocks(descriptor: int, start: int, n_entries: int, entry: np.dtype[Any]) -> Iterator[bytes]:
    step = max(1, _BLOCK_BYTES // entry.itemsize)
    for first in range(0, n_entries, step):
        n_bytes = entry.itemsize * min(step, n_entries - first)
        yield os.pread(descriptor, n_bytes, start + entry.itemsize * first)


def _entries(rows: NDArray[Any]) -> Entries:
    return Entries(rows["sizes"].astype(np.int64), rows["checksums"].astype(np.uint32))


def _packed_rows(first: int, entries: Entries, entry: np.dtype[Any]) -> bytes:
    rows = np.empty(len(entries), entry)
    rows["sizes"], rows["checksums"] = entries.sizes, entries.checksums
    rows["check"] = _checks(first, rows)
    return rows.tobytes()


def _checks(first: int, rows: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the CRC-32 of each entry and its number: a misplaced entry does not match."""
    numbered = np.empty(len(rows), [("number", "<i8"), ("rows", rows.dtype)])
    numbered["number"], numbered["rows"] = np.arange(first, first + len(rows)), rows
    starts = np.arange(len(rows), dtype=np.int64) * numbered.itemsize
    covered = np.full(len(rows), numbered.itemsize - 4, np.int64)  # all but the check itself
    return crc32_extents(numbered.tobytes(), starts, covered)
