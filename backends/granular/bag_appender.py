"""Appends to a bag: records to one file, their ends to another, which is the final form of generation 3."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataformats.backends.granular.layout import ENTRY_BYTES
from dataformats.batch import Blobs
from dataformats.storage import atomic
from dataformats.storage.atomic import open_unbuffered

_COPY_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to resume appending to a bag.

    Attributes:
        n_records: Records to keep.
        end: Bytes of these records.
    """

    n_records: int = 0
    end: int = 0


class BagAppender:
    """Appends records to a bag and their ends to its index. Not thread-safe.

    The first write truncates both files to the records that are kept, not before: a writer that resumes and gives up
    has changed nothing. Every write goes to a known place, so one that failed (a full disk) can be repeated.

    Args:
        bag: The file of the records.
        idx: The file of their ends.
        point: Where to resume.

    Attributes:
        n_records: Records, including those not written yet.
        end: Bytes of these records.
        index: The file of their ends.
    """

    def __init__(self, bag: Path, idx: Path, point: ResumePoint) -> None:
        self.index = idx
        self.n_records: int = point.n_records
        self.end: int = point.end
        self._written = point.end
        self._n_indexed = point.n_records
        self._records: list[bytes | memoryview] = []
        self._ends: list[int] = []  # ends of records that are not written yet
        self._new_ends = b""  # the same, packed, once the records are written
        self._packed = b""  # ends of listed records that are not indexed yet
        self._is_truncated = False
        # The index first: a bag without one is complete, with its table at its end.
        self._files = [open_unbuffered(idx)]
        try:
            self._files.append(open_unbuffered(bag))
        except BaseException:
            self._files[0].close()
            if not bag.exists() and not idx.stat().st_size:
                idx.unlink()
            raise
        self._idx_descriptor, self._descriptor = (file.fileno() for file in self._files)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of the written records, and of their ends."""
        return self._written, ENTRY_BYTES * (self.n_records - len(self._ends))

    def append(self, record: bytes) -> int:
        """Append one record; it is written later. Return the bytes that it takes in both files."""
        self._records.append(record)
        self.end += len(record)
        self.n_records += 1
        self._ends.append(self.end)
        return len(record) + ENTRY_BYTES

    def append_all(self, records: Blobs) -> int:
        """Append several records as `append` does."""
        data, offsets = records.contiguous()
        self._records.append(data.data)
        self._ends += (self.end + offsets[1:]).tolist()
        self.end += len(data)
        self.n_records += len(records)
        return len(data) + ENTRY_BYTES * len(records)

    def write_records(self) -> tuple[Sequence[bytes | memoryview], Sequence[bytes]]:
        """Hand the records to the operating system; return what is appended to each of both files.

        Until `finish_records` is called, the next call repeats the write.
        """
        self._truncate()
        records = atomic.joined(self._records)
        atomic.write_parts(self._descriptor, records, self._written)
        self._new_ends = np.array(self._ends, "<u8").tobytes()
        return records, [self._new_ends]

    def finish_records(self) -> None:
        """Count the records as written, once a journal lists them and their ends."""
        ends = self._packed + self._new_ends
        # No calls, so that an interrupt (Ctrl-C) comes before or after all of them.
        self._records, self._ends, self._written, self._packed, self._new_ends = [], [], self.end, ends, b""

    def write_ends(self) -> None:
        """Hand the ends to the operating system; only after the records, so that an end always has its record."""
        if self._packed:
            atomic.write_all(self._idx_descriptor, self._packed, ENTRY_BYTES * self._n_indexed)
            self._n_indexed += len(self._packed) // ENTRY_BYTES
            self._packed = b""

    def sync_records(self) -> None:
        """Sync the records to the disk."""
        os.fsync(self._descriptor)

    def sync_ends(self) -> None:
        """Sync the ends to the disk."""
        os.fsync(self._idx_descriptor)

    def append_index(self) -> None:
        """Copy the index behind the records, as generation 2 has it, and sync; the index stays."""
        size = ENTRY_BYTES * self._n_indexed
        for at in range(0, size, _COPY_BYTES):
            part = os.pread(self._idx_descriptor, min(_COPY_BYTES, size - at), at)
            atomic.write_all(self._descriptor, part, self.end + at)
        os.fsync(self._descriptor)

    def drop_index(self) -> None:
        """Delete the index."""
        self.index.unlink(missing_ok=True)

    def close(self) -> None:
        """Close both files."""
        for file in self._files:
            file.close()

    def _truncate(self) -> None:
        if not self._is_truncated:
            os.ftruncate(self._idx_descriptor, ENTRY_BYTES * self._n_indexed)
            os.ftruncate(self._descriptor, self._written)
            self._is_truncated = True
