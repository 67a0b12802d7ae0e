"""Writes one FFRecord file, without knowing beforehand how many records there will be."""

from __future__ import annotations

import os
import shutil
from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.ffrecord.layout import ENTRY_BYTES, build_header, header_bytes
from dataformats.backends.ffrecord.recovery import JOURNAL_MAGIC, recover
from dataformats.interfaces import BlobWriter
from dataformats.kernels import crc32_extents
from dataformats.storage.atomic import publish, write_all
from dataformats.writing.journal import Entries, Journal

__all__ = ["FFRecordWriter"]

_PENDING_BYTES = 4 * 2**20
_PENDING_RECORDS = 4096


class FFRecordWriter(BlobWriter):
    """Data grow in the file at `path`, lengths and CRCs in `path` + ".journal", until `close` joins both.

    The header stands in front of the data and grows with the number of records, so `close` copies the data
    behind it (which takes twice the space for that moment), unless `records` said beforehand how long it is.

    Args:
        path: A local path.
        resume: Go on with what a killed writer left; otherwise that is deleted.
        records: How many there will be.

    Raises:
        FormatError: There is something to resume, but its journal is lost.
        ValueError: `records` is negative, or less than what was found.
    """

    def __init__(self, path: Path, *, resume: bool = False, records: int | None = None) -> None:
        if records is not None and records < 0:
            raise ValueError(f"records must be >= 0, found {records}")
        self.path = path
        self._records = records
        found = self._found(resume)
        if records is not None and len(found) > records:
            raise ValueError(f"{str(path)!r} holds {len(found)} records, more than records={records}")
        self._base: int = found.facts["base"]
        self._lengths = array("q", found.sizes.tobytes())
        self._checksums = array("I", found.checksums.tobytes())
        self.n_records: int = len(found)
        self.n_bytes: int = header_bytes(len(found)) + found.n_bytes
        self._data_bytes = found.n_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._open_files(found)

    def append(self, blob: bytes) -> None:
        """Append one record.

        Args:
            blob: `bytes`, `bytearray`, or a C-contiguous `memoryview`, of which all bytes are written.

        Raises:
            TypeError: It is something else.
            ValueError: It is one more than `records`, or the writer is closed.
        """
        self._check_open()
        if self._records is not None and self.n_records >= self._records:
            raise ValueError(f"record {self.n_records + 1} of a file made for records={self._records}")
        data = _as_bytes(blob)
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.n_records += 1
        self.n_bytes += ENTRY_BYTES + len(data)
        if self._pending_bytes >= _PENDING_BYTES or len(self._pending) >= _PENDING_RECORDS:
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Hand all records to the operating system, with `sync` to the disk; it may be tried again."""
        self._check_open()
        # Data first: an entry of the journal is worth something only when its record is there.
        self._write_pending()
        if sync:
            os.fsync(self._descriptor)
        lengths, checksums = self._columns(self._journal.n_entries)
        self._journal.append(lengths[:, None], checksums)
        if sync:
            self._journal.sync()

    def close(self) -> None:
        """Complete the file at `path`, sync it and delete the journal; the caller gives it its final name.

        Raises:
            ValueError: There are fewer records than `records` promised; the writer stays open.
            RuntimeError: An append was interrupted halfway.
        """
        if self._closed:
            return
        if self._records is not None and self.n_records != self._records:
            raise ValueError(f"closed after {self.n_records} records, made for records={self._records}")
        # With the journal on the disk, a crash below leaves either file in a state that resuming understands.
        self.flush(sync=True)
        lengths, checksums = self._columns()
        self._check_whole(lengths, checksums)
        header = build_header(lengths, checksums)
        if len(header) == self._base:
            write_all(self._descriptor, header, 0)
            os.fsync(self._descriptor)
        else:
            self._rebuild(header)
        self._close_files()
        self._journal.path.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Hand everything to the operating system and let go; the file and its journal stay for a resume."""
        if not self._closed:
            try:
                self.flush()
            finally:
                self._close_files()

    def discard(self) -> None:
        """Let go of the file and delete it, its journal and what an interrupted `close` left."""
        if not self._closed:
            self._close_files()
        # The journal last: data without one could neither be resumed nor be known as ours.
        for path in (self._rebuilt, self.path, self._journal.path):
            path.unlink(missing_ok=True)

    @property
    def _journal_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.journal")

    @property
    def _rebuilt(self) -> Path:
        return self.path.with_name(f"{self.path.name}.partial")

    @property
    def _closed(self) -> bool:
        return self._descriptor < 0

    def _found(self, resume: bool) -> Entries:
        self._rebuilt.unlink(missing_ok=True)
        found = recover(self.path, self._journal_path) if resume else None
        if found is None:
            self.path.unlink(missing_ok=True)
            self._journal_path.unlink(missing_ok=True)
            base = 0 if self._records is None else header_bytes(self._records)
            found = Entries.none({"base": base}, 1)
        return found

    def _open_files(self, found: Entries) -> None:
        # The journal first: data without one could not be resumed.
        self._journal = Journal(self._journal_path, JOURNAL_MAGIC, found)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.ftruncate(self._descriptor, self._base + self._data_bytes)

    def _write_pending(self) -> None:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        lengths = np.fromiter(map(len, self._pending), np.int64, len(self._pending))
        checksums = crc32_extents(data, np.cumsum(lengths) - lengths, lengths)
        # At a known place, so that a write that failed (a full disk) can be done again.
        write_all(self._descriptor, data, self._base + self._data_bytes)
        self._lengths.frombytes(lengths.tobytes())
        self._checksums.frombytes(checksums.tobytes())
        self._data_bytes += len(data)
        self._pending.clear()
        self._pending_bytes = 0

    def _rebuild(self, header: bytes) -> None:
        """Put header and data together in a new file, which takes the place of the data file."""
        with self._rebuilt.open("wb", buffering=0) as target:
            write_all(target.fileno(), header, 0)
            _copy(self._descriptor, self._base, target.fileno(), len(header), self._data_bytes)
            os.fsync(target.fileno())
        publish(self._rebuilt, self.path)

    def _columns(self, first: int = 0) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return lengths and CRCs from record `first` on; copies, as an array with a view cannot grow."""
        lengths = np.array(self._lengths[first:], np.int64)
        return lengths, np.array(self._checksums[first:], np.uint32)

    def _close_files(self) -> None:
        self._journal.close()
        os.close(self._descriptor)
        self._descriptor = -1

    def _check_whole(self, lengths: NDArray[np.int64], checksums: NDArray[np.uint32]) -> None:
        """Refuse a state that an interrupt (Ctrl-C) in an append or a flush left half changed."""
        size = os.fstat(self._descriptor).st_size
        whole = len(lengths) == len(checksums) == self.n_records and int(lengths.sum()) == self._data_bytes
        if not whole or size != self._base + self._data_bytes:
            raise RuntimeError(f"writing {str(self.path)!r} was interrupted; go on with resume=True")

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of {str(self.path)!r} is closed")


def _as_bytes(blob: object) -> bytes:
    if isinstance(blob, bytes):
        return blob
    if isinstance(blob, bytearray):
        return bytes(blob)
    if isinstance(blob, memoryview) and blob.c_contiguous:
        return blob.tobytes()
    kind = "a memoryview that is not C-contiguous" if isinstance(blob, memoryview) else type(blob).__name__
    raise TypeError(f"a record must be bytes, bytearray or a C-contiguous memoryview, found {kind}")


def _copy(source: int, start: int, target: int, place: int, length: int) -> None:
    """Copy `length` bytes from one file to another, inside the kernel where it can."""
    done = _copy_in_kernel(source, start, target, place, length)
    if done < length:
        with os.fdopen(os.dup(source), "rb") as reader, os.fdopen(os.dup(target), "wb") as writer:
            reader.seek(start + done)
            writer.seek(place + done)
            shutil.copyfileobj(reader, writer, 8 * 2**20)


def _copy_in_kernel(source: int, start: int, target: int, place: int, length: int) -> int:
    """Return how many bytes the kernel copied: all, or what it did before it said that it cannot."""
    copy = getattr(os, "copy_file_range", None)
    done = 0
    try:
        while copy is not None and done < length:
            n = copy(source, target, length - done, start + done, place + done)
            if n == 0:
                break
            done += n
    except OSError:
        pass  # another file system, an old kernel; a full disk shows again in the plain copy
    return done
