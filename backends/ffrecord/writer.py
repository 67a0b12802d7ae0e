"""Writes one FFRecord file, without knowing the number of records in advance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, build_header, header_bytes
from dataformats.backends.ffrecord.recovery import JOURNAL_MAGIC, recover
from dataformats.backends.journaled.journaled_file import JournaledFileWriter, discard_unfinished
from dataformats.batch import StoredRecords
from dataformats.interfaces import BlobWriter
from dataformats.kernels import crc32_extents
from dataformats.storage.atomic import copy_range, publish, remove, write_all

__all__ = ["FFRecordWriter"]


class FFRecordWriter(JournaledFileWriter, BlobWriter):
    """Appends records to one file.

    The header precedes the data and grows with the number of records. So `close` copies the data behind the header,
    which takes twice the space for that moment, unless `records` gave the length of the header in advance.

    Args:
        path: A local path.
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
        entries = recover(path) if resume else None
        if entries is None:
            base = 0 if records is None else header_bytes(records)
            entries = discard_unfinished(path, {"base": base}, 1)
        if records is not None and len(entries) > records:
            raise ValueError(f"{str(path)!r} holds {len(entries)} records, more than records={records}")
        super().__init__(path, JOURNAL_MAGIC, entries, base=entries.facts["base"], entry_bytes=ENTRY_BYTES)
        self.n_bytes: int = header_bytes(len(entries)) + entries.n_bytes

    def append(self, blob: bytes) -> None:
        """Append one record.

        Args:
            blob: `bytes`, `bytearray`, or a C-contiguous `memoryview`, of which all bytes are written.

        Raises:
            TypeError: It is something else.
            ValueError: It is one more than `records`, or the writer is closed.
        """
        if self._records is not None and self.n_records >= self._records:
            raise ValueError(f"cannot append record {self.n_records + 1}: expected records={self._records}")
        data = blob if type(blob) is bytes else _as_bytes(blob)
        self._append((data,), len(data))

    def extend(self, blobs: Sequence[bytes]) -> None:
        """Append several records, in order; up to the first that raises."""
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
            RuntimeError: An append was interrupted halfway.
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
        lengths, checksums = self._entries()
        header = build_header(lengths[:, 0], checksums)
        if len(header) == self._base:
            write_all(self._descriptor, header, 0)
            os.fsync(self._descriptor)
        else:
            self._rebuild(header)

    def _rebuild(self, header: bytes) -> None:
        """Write header and data to a new file, and replace the data file by it."""
        with self._rebuilt.open("wb", buffering=0) as target:
            write_all(target.fileno(), header, 0)
            copy_range(self._descriptor, self._base, target.fileno(), len(header), self._data_bytes)
            os.fsync(target.fileno())
        publish(self._rebuilt, self.path)


def _as_bytes(blob: object) -> bytes:
    if isinstance(blob, bytes):
        return blob
    if isinstance(blob, bytearray):
        return bytes(blob)
    if isinstance(blob, memoryview) and blob.c_contiguous:
        return blob.tobytes()
    kind = "a memoryview that is not C-contiguous" if isinstance(blob, memoryview) else type(blob).__name__
    raise TypeError(f"cannot append a record: expected bytes, bytearray or a C-contiguous memoryview, found {kind}")
