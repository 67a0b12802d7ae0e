"""Writes one FFRecord file, without knowing the number of records in advance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, PREFIX, header_bytes, header_pieces
from dataformats.batch import StoredRecords
from dataformats.interfaces import BlobWriter
from dataformats.kernels import crc32, crc32_extents
from dataformats.spec import VALUE
from dataformats.storage import atomic
from dataformats.storage.record_journal import StoredJournal
from dataformats.writing.appending_writer import AppendingWriter, Journaled

JOURNAL_METADATA = {"format": "ffrecord"}


class FFRecordWriter(AppendingWriter, BlobWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record is a blob
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

    extra: int = ENTRY_BYTES
    overhead: int = PREFIX.size
    journaled: Journaled = "record"
    journal_metadata: Mapping[str, Any] = JOURNAL_METADATA

    def __init__(self, path: Path, *, resume: bool = False, records: int | None = None) -> None:
        if records is not None and records < 0:
            raise ValueError(f"records must be >= 0, found {records}")
        self._records = records
        self._rebuilt = path.with_name(f"{path.name}.partial")
        self._rebuilt.unlink(missing_ok=True)
        super().__init__(path, resume=resume, first_byte=0 if records is None else header_bytes(records))
        self._checks = records is not None
        if records is not None and self.n_records > records:
            self._close_file()
            raise ValueError(f"{str(path)!r} holds {self.n_records} records, more than records={records}")

    def frames(self, records: Sequence[bytes]) -> Sequence[bytes]:
        return records

    def check(self, record: bytes) -> None:
        """Raise `ValueError` for one record more than `records`."""
        if self._records is not None and self.n_records >= self._records:
            raise ValueError(f"cannot append record {self.n_records + 1}: expected records={self._records}")

    def accepts_all(self, records: Sequence[bytes]) -> bool:
        return self._records is None or self.n_records + len(records) <= self._records

    def append_stored(self, records: StoredRecords) -> None:
        """Append records; the checksums of another FFRecord are kept."""
        if self._records is not None and self.n_records + len(records) > self._records:
            super().append_stored(records)
            return
        data, offsets = records.blobs.contiguous()
        checksums = records.checksums if records.format == "ffrecord" else None
        if checksums is None:
            checksums = crc32_extents(data, offsets[:-1], np.diff(offsets))
        self._write_blobs(data.data, np.diff(offsets)[:, None], checksums)

    def close(self, *, sync: bool = True) -> None:
        """Complete the file and sync it.

        Raises:
            ValueError: There are fewer records than `records`; the writer stays open.
        """
        if self._file is not None and self._records is not None and self.n_records != self._records:
            raise ValueError(f"cannot close: expected records={self._records}, found {self.n_records} records")
        super().close(sync=sync)

    def discard(self) -> None:
        """Delete the file, its journal, and the copy that an interrupted `close` left."""
        try:
            super().discard()
        finally:
            atomic.remove(self._rebuilt)

    def _moved(self, journal: StoredJournal) -> Sequence[int] | None:
        return moved_records(self._path, journal)

    def complete(self) -> None:
        size, base, descriptor = header_bytes(self.n_records), self.first_byte, self._open_file().fileno()
        if size == base:
            self._write_header(descriptor)
            return
        with self._rebuilt.open("wb", buffering=0) as destination:
            self._write_header(destination.fileno())
            atomic.copy_range(descriptor, base, destination.fileno(), size, self._end - base)
            os.fsync(destination.fileno())
        atomic.publish(self._rebuilt, self._path)

    def _write_header(self, descriptor: int) -> None:
        at, checksum = 4, 0
        for piece in header_pieces(self.n_records, self._columns):
            atomic.write_all(descriptor, piece, at)
            at, checksum = at + len(piece), crc32(piece, checksum)
        atomic.write_all(descriptor, checksum.to_bytes(4, "little"), 0)

    def _columns(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
        """Yield lengths and checksums of records, in blocks."""
        for index in self.written():
            part = index.arrays[VALUE]
            assert part.stored is not None  # a record has one field
            yield part.length, part.stored


def moved_records(path: Path, journal: StoredJournal) -> Sequence[int] | None:
    """Return where the first record begins if the file has the header of all records: its writer was killed then."""
    n, checksum = journal.n_listed, 0
    with path.open("rb") as file:
        prefix = file.read(PREFIX.size)
        if prefix[4:] != PREFIX.pack(0, n)[4:]:
            return None  # saves reading the journal
        file.seek(4)
        for piece in header_pieces(n, lambda: ((block.lengths, block.checksums) for block in journal.entries())):
            if file.read(len(piece)) != piece:
                return None
            checksum = crc32(piece, checksum)
    return [header_bytes(n)] if checksum == int.from_bytes(prefix[:4], "little") else None
