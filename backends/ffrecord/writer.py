"""Writes one FFRecord file, without knowing the number of records in advance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, header_bytes, header_pieces
from dataformats.backends.ffrecord.resume import JOURNAL_MAGIC, recover
from dataformats.backends.journaled.journaled_file import JournaledFileWriter, new_journal
from dataformats.batch import StoredRecords
from dataformats.interfaces import BlobWriter
from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import copy_range, publish, remove, write_all


class FFRecordWriter(JournaledFileWriter, BlobWriter):
    """Appends records to one file.

    The header precedes the data and grows with the number of records. So `close` copies the data behind the header,
    which takes twice the space for that moment, unless `records` gave the length of the header in advance.

    Args:
        resume: Continue an unfinished file; otherwise it is deleted.
        records: The number of records, if it is known.

    Raises:
        FormatError: There are data to resume, but their journal is missing.
        ValueError: `records` is negative, or less than the records found by `resume`.
    """

    def __init__(self, path: Path, *, resume: bool = False, records: int | None = None) -> None:
        if records is not None and records < 0:
            raise ValueError(f"records must be >= 0, found {records}")
        self._records = records
        self._rebuilt = path.with_name(f"{path.name}.partial")
        self._rebuilt.unlink(missing_ok=True)
        journal = recover(path) if resume else None
        if journal is None:
            base = 0 if records is None else header_bytes(records)
            journal = new_journal(path, JOURNAL_MAGIC, {"base": base}, 1)
        if records is not None and journal.n_entries > records:
            journal.close()
            raise ValueError(f"{str(path)!r} holds {journal.n_entries} records, more than records={records}")
        super().__init__(path, journal, base=journal.metadata["base"], entry_bytes=ENTRY_BYTES)
        self.n_bytes: int = header_bytes(journal.n_entries) + journal.n_bytes

    def append(self, blob: bytes) -> None:
        """Append one record.

        Args:
            blob: `bytes`, `bytearray`, or a C-contiguous `memoryview`, whose bytes are all written.

        Raises:
            TypeError: It is something else.
            ValueError: It is one more than `records`, or the writer is closed.
        """
        if self._records is not None and self.n_records >= self._records:
            raise ValueError(f"cannot append record {self.n_records + 1}: expected records={self._records}")
        data = blob if type(blob) is bytes else _as_bytes(blob)
        self._append((data,), len(data))

    def extend(self, blobs: Sequence[bytes]) -> None:
        if self._records is not None and self.n_records + len(blobs) > self._records:
            super().extend(blobs)
            return
        data = [blob if type(blob) is bytes else _as_bytes(blob) for blob in blobs]
        self._append(data, sum(map(len, data)), len(data))

    def append_stored(self, records: StoredRecords) -> None:
        """Append records; the checksums of another FFRecord are kept."""
        self._check_open()
        if self._records is not None and self.n_records + len(records) > self._records:
            super().append_stored(records)
            return
        data, offsets = records.blobs.contiguous()
        checksums = records.checksums if records.format == "ffrecord" else None
        if checksums is None:
            checksums = crc32_extents(data, offsets[:-1], np.diff(offsets))
        self._append_many(data.data, np.diff(offsets), checksums)

    def close(self) -> None:
        """Complete the file at `path`, sync it and delete the journal; the caller renames the file.

        Raises:
            ValueError: There are fewer records than `records`; the writer stays open.
        """
        if not self._closed and self._records is not None and self.n_records != self._records:
            raise ValueError(f"cannot close: expected records={self._records}, found {self.n_records} records")
        super().close()

    def discard(self) -> None:
        """Delete the file, its journal, and the copy that an interrupted `close` left."""
        try:
            super().discard()
        finally:
            remove(self._rebuilt)

    def _complete(self) -> None:
        if os.fstat(self._descriptor).st_size != self._base + self._data_bytes:
            raise self._interrupted()
        size = header_bytes(self.n_records)
        if size == self._base:
            self._write_header(self._descriptor)
            os.fsync(self._descriptor)
        else:
            self._rebuild(size)

    def _rebuild(self, size: int) -> None:
        """Write a header of `size` bytes and the data to a new file, and replace the data file by it."""
        with self._rebuilt.open("wb", buffering=0) as destination:
            self._write_header(destination.fileno())
            copy_range(self._descriptor, self._base, destination.fileno(), size, self._data_bytes)
            os.fsync(destination.fileno())
        publish(self._rebuilt, self.path)

    def _write_header(self, descriptor: int) -> None:
        def blocks() -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
            return ((entries.lengths, entries.checksums) for entries in self._journal.entries())

        at, checksum = 4, 0
        for piece in header_pieces(self.n_records, blocks):
            write_all(descriptor, piece, at)
            at, checksum = at + len(piece), crc32(piece, checksum)
        write_all(descriptor, checksum.to_bytes(4, "little"), 0)


def _as_bytes(blob: object) -> bytes:
    if isinstance(blob, bytes):
        return blob
    if isinstance(blob, bytearray):
        return bytes(blob)
    if isinstance(blob, memoryview) and blob.c_contiguous:
        return blob.tobytes()
    kind = "a memoryview that is not C-contiguous" if isinstance(blob, memoryview) else type(blob).__name__
    raise TypeError(f"cannot append a record: expected bytes, bytearray or a C-contiguous memoryview, found {kind}")
