"""The base class of file writers whose unfinished file has a journal, from which `resume` continues it."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.journaled.journal import Entries, Journal
from dataformats.interfaces import FileWriter
from dataformats.kernels import crc32, crc32_extents
from dataformats.storage import atomic
from dataformats.storage.atomic import open_unbuffered, write_parts

_PENDING_BYTES = 2**20  # written while they are in the processor's cache
_PENDING_RECORDS = 4096
_LONG_BYTES = 2048  # copying longer blobs takes longer than a call of the checksum for each


class JournaledFileWriter(FileWriter):
    """Writes records back to back into one file, and their sizes and checksums into a journal beside it.

    The data grow in the file at `path`, the journal in `path` + ".journal", until `close` completes the file and
    deletes the journal. A record consists of one blob or of a fixed number of blobs.

    Args:
        journal: The journal beside it, which lists the records that the file holds already.
        base: Where in the file the first record begins.
        entry_bytes: Bytes that the finished file has for each record besides its data.

    Attributes:
        keeps_journal: True if the complete file has no table: the journal is then deleted when the file is published,
            and the file can be resumed until then.
    """

    n_bytes: int  # set by the format
    keeps_journal: bool = False

    def __init__(self, path: Path, journal: Journal, *, base: int, entry_bytes: int) -> None:
        self.path = path
        self.n_records: int = journal.n_entries
        self._base = base
        self._entry_bytes = entry_bytes
        self._n_blobs = journal.n_sizes
        self._max_pending = _PENDING_RECORDS * self._n_blobs
        self._data_bytes = journal.n_bytes
        self._pending: list[bytes] = []
        self._unlisted: list[Entries] = []  # entries of records in the file that the journal lacks
        self._flush_at = _PENDING_BYTES  # the `n_bytes` at which to flush
        self._journal = journal
        self._file = open_unbuffered(path)
        self._descriptor = self._file.fileno()
        os.ftruncate(self._descriptor, base + self._data_bytes)

    def flush(self, *, sync: bool = False) -> None:
        """Hand all records to the operating system, with `sync` also to the disk; may be repeated after an error."""
        self._check_open()
        # Data first: an entry of the journal is useless without its record.
        self._write_pending()
        if sync:
            os.fsync(self._descriptor)
        if self._unlisted:
            self._journal.append(Entries.join(self._unlisted, self._n_blobs))
            self._unlisted.clear()
        if sync:
            self._journal.sync()

    def close(self) -> None:
        """Complete the file at `path`, sync it and delete the journal; the caller renames the file.

        Raises:
            RuntimeError: An append was interrupted halfway.
        """
        if self._closed:
            return
        # If the journal is on disk, a crash below leaves the file in a state that `resume` understands.
        self.flush(sync=True)
        self._check_consistent()
        self._complete()
        self._close_files()
        if not self.keeps_journal:
            self._journal.path.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Flush buffers to the operating system and close the file; file and journal stay for a resume."""
        if not self._closed:
            try:
                self.flush()
            finally:
                self._close_files()

    def discard(self) -> None:
        """Close the file, then delete it and its journal."""
        try:
            if not self._closed:
                self._close_files()
        finally:
            atomic.remove(self.path, self._journal.path)

    @abstractmethod
    def _complete(self) -> None:
        """Add header and tables to the flushed data, and sync the file."""

    def _append(self, blobs: Sequence[bytes], n_bytes: int, n_records: int = 1) -> None:
        """Append the blobs of one record, or of several, `n_bytes` in all; written when enough records are pending."""
        if self._descriptor < 0:
            self._check_open()
        self._pending += blobs
        self.n_records += n_records
        self.n_bytes = size = self.n_bytes + n_bytes + n_records * self._entry_bytes
        if size >= self._flush_at or len(self._pending) >= self._max_pending:
            self.flush()

    def _append_many(self, data: memoryview, sizes: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Write records at once: their bytes, int64[n, k] sizes of their blobs, and uint32[n] CRC-32."""
        if self._pending:
            self._write_pending()
        self._write([data], sizes, checksums)
        self.n_records += len(sizes)
        self.n_bytes += len(data) + self._entry_bytes * len(sizes)
        if self.n_bytes >= self._flush_at:
            self.flush()

    def _write_pending(self) -> None:
        sizes = np.fromiter(map(len, self._pending), np.int64, len(self._pending))
        # Not `sum`: its first call imports a module, which fails while Python shuts down and writers are aborted.
        lengths = np.add.reduce(sizes.reshape(-1, self._n_blobs), axis=1)
        parts = self._pending
        if np.add.reduce(sizes) < _LONG_BYTES * len(sizes):
            parts = [b"".join(self._pending)]
            checksums = crc32_extents(parts[0], np.cumsum(lengths) - lengths, lengths)
        else:
            records = zip(*[iter(parts)] * self._n_blobs, strict=True)
            checksums = np.fromiter((_checksum(blobs) for blobs in records), np.uint32, len(lengths))
        self._write(parts, sizes, checksums)
        self._pending.clear()
        self._flush_at = self.n_bytes + _PENDING_BYTES

    def _write(
        self, parts: Sequence[bytes | memoryview], sizes: NDArray[np.int64], checksums: NDArray[np.uint32]
    ) -> None:
        # The place is known, so that a write that failed (a full disk) can be repeated.
        n_bytes = write_parts(self._descriptor, parts, self._base + self._data_bytes)
        self._unlisted.append(Entries(sizes.reshape(-1, self._n_blobs), checksums))
        self._data_bytes += n_bytes

    def _check_consistent(self) -> None:
        """Refuse a state that an interrupt (Ctrl-C) in an append or a flush left half changed."""
        if (self._journal.n_entries, self._journal.n_bytes) != (self.n_records, self._data_bytes):
            raise self._interrupted()

    def _interrupted(self) -> RuntimeError:
        return RuntimeError(f"an append to {str(self.path)!r} was interrupted; continue with resume=True")

    def _close_files(self) -> None:
        self._descriptor = -1
        try:
            self._journal.close()
        finally:
            self._file.close()

    @property
    def _closed(self) -> bool:
        return self._descriptor < 0

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of {str(self.path)!r} is closed")


def _checksum(blobs: Sequence[bytes]) -> int:
    """Return the CRC-32 of blobs that lie back to back."""
    value = 0
    for blob in blobs:
        value = crc32(blob, value)
    return value


def journal_path(path: Path) -> Path:
    """Return the path of the journal of an unfinished file."""
    return path.with_name(f"{path.name}.journal")


def new_journal(path: Path, magic: bytes, metadata: dict[str, Any], n_blobs: int) -> Journal:
    """Delete an unfinished file and its journal, if they exist; return the journal of a new file.

    Args:
        path: The unfinished file.
        magic: 8 bytes that identify the journals of the format.
        metadata: What the journal keeps about the file, as JSON.
        n_blobs: Blobs of each record.
    """
    atomic.remove(path, journal_path(path))
    # It is on the disk before the file exists: data without a journal could not be resumed.
    return Journal(journal_path(path), magic, metadata, n_blobs)
