"""Writes one file of frames. The frames written so far are always a sound file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import numpy as np

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.stream import iter_chunks
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import BlobWriter, OpenOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import gather
from dataformats.storage import atomic
from dataformats.storage.atomic import write_parts
from dataformats.storage.files import LocalFile

__all__ = ["FramedWriter"]

_LOG = logging.getLogger("dataformats")
_BUFFER_BYTES = 2**20
_BUFFER_RECORDS = 4096
_HEAD_BYTES = 64
_LARGE_BYTES = 8 * 2**20  # a longer record is written by itself, without a copy


class FramedWriter(BlobWriter):
    """Appends records to one file.

    Args:
        path: The file.
        resume: Keep the whole and sound records at the front of the file, and append to them.

    Attributes:
        framing: The frames of the format.
    """

    framing: Framing

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.n_records: int = 0
        self.n_bytes: int = 0
        self._path = path
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._unwritten: list[bytes | memoryview] = []  # what a write that failed has yet to write
        self._end = 0  # bytes in the file
        self._is_named = False  # True once the folder's entry of the file is on disk
        self._file: FileIO | None = None
        if resume and path.exists():
            self._resume()
        else:
            self._open(path)

    def append(self, blob: bytes | bytearray | memoryview) -> None:
        """Append one record.

        Raises:
            TypeError: It is not bytes, bytearray or memoryview.
            SpecError: It is empty, and the format cannot hold empty records.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            kind = type(blob).__name__
            raise TypeError(f"cannot append a record to {self.framing.title} file: expected bytes, found {kind}")
        self._open_file()
        data = bytes(blob)
        if len(data) < self.framing.min_length:
            raise SpecError(
                f"{self.framing.title} file cannot hold empty records, because its other readers stop at them. "
                "Leave the record out, or give it a field that has a value"
            )
        if len(data) > _LARGE_BYTES:
            self._write_pending()
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.n_records += 1
        self.n_bytes += len(data) + self.framing.extra
        if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) >= _BUFFER_RECORDS:
            self._write_pending()

    def extend(self, blobs: Sequence[bytes]) -> None:
        """Append several records, in order; up to the first that raises."""
        lengths = list(map(len, blobs))
        n_bytes = sum(lengths)
        if set(map(type, blobs)) != {bytes} or min(lengths) < self.framing.min_length or n_bytes > _LARGE_BYTES:
            super().extend(blobs)
            return
        self._open_file()
        self._pending += blobs
        self._pending_bytes += n_bytes
        self.n_records += len(blobs)
        self.n_bytes += n_bytes + len(blobs) * self.framing.extra
        if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) >= _BUFFER_RECORDS:
            self._write_pending()

    def append_stored(self, records: StoredRecords) -> None:
        """Append records; the frames of a file of the same format are copied as they are, with their checksums."""
        blobs, least = records.blobs, self.framing.min_length
        if not records.framed or records.format != self.framing.name or blobs.lengths.min(initial=least) < least:
            super().append_stored(records)
            return
        self._open_file()
        self._write_pending()
        self._count(blobs)
        self._write(*self._compressed([_frames_around(blobs, self.framing)]))

    def flush(self, *, sync: bool = False) -> None:
        """Flush buffers to the operating system; the file can then be read up to here."""
        file = self._open_file()
        self._write_pending()
        self._write(self._flushed(last=False))
        self._take_name()
        if sync:
            os.fsync(file.fileno())
            if not self._is_named:
                atomic.sync(self._path.parent)
                self._is_named = True

    def close(self, *, sync: bool = True) -> None:
        """Complete the file and sync it; a second call is a no-op."""
        if self._file is None:
            return
        self._write_pending()
        self._write(self._flushed(last=True))
        self._take_name()
        if sync:
            os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def suspend(self) -> None:
        """Close the incomplete file, with every record that was appended if the disk takes them."""
        if self._file is None:
            return
        try:
            self.flush()
        except OSError as error:
            _LOG.warning("could not write the last records of %s: %s", self._path, error)
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            _LOG.warning("could not close %s, which may be incomplete: %s", self._path, error)

    def discard(self) -> None:
        """Delete the file."""
        if self._file is not None:
            file, self._file = self._file, None
            self._pending = []
            try:
                file.close()
            except OSError as error:
                _LOG.warning("could not close %s: %s", self._path, error)
        atomic.remove(self._path)

    # ---- hooks for compression

    def _compressed(self, parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Return the bytes to write for parts of frames; a compressor may hold some back."""
        return parts

    def _flushed(self, *, last: bool) -> bytes:
        """Return the bytes that `_compressed` held back, and with `last` those that complete the file."""
        return b""

    def _take_name(self) -> None:
        """Give the file its name, if it replaces another one; all its bytes so far are written."""

    def _decompressed(self, stored: StoredFile) -> StoredFile:
        """Return the decompressed file of a stored one that is not empty."""
        return stored

    def _resume(self) -> None:
        """Truncate the file behind the last sound record."""
        for blobs in self._sound():
            self._count(blobs)
        self._open(self._path, self.n_bytes)

    # ---- the same for all formats

    def _open(self, path: Path, end: int = 0) -> None:
        """Open the file to write from byte `end` on; what is behind it is deleted."""
        self._file, self._end = atomic.open_unbuffered(path), end
        os.ftruncate(self._file.fileno(), end)

    def _open_file(self) -> FileIO:
        if self._file is None:
            raise ValueError(f"the writer of {str(self._path)!r} is closed")
        return self._file

    def _write_pending(self) -> None:
        if self._pending:
            parts = self.framing.frame_parts(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._write(*self._compressed(parts))

    def _write(self, *parts: bytes | memoryview) -> None:
        """Append to the file. Bytes that could not be written (a full disk) are written by the next call."""
        self._unwritten += parts
        if self._unwritten:
            self._end += write_parts(self._open_file().fileno(), self._unwritten, self._end)
            self._unwritten = []

    def _sound(self) -> Iterator[Blobs]:
        """Yield the records of the file up to the first that is incomplete, damaged, or too short to be written."""
        stored = LocalFile(self._path)
        try:
            if stored.size == 0:
                return
            try:
                frames = self._decompressed(stored)
            except FormatError:
                if any(stored.pread(0, min(stored.size, _HEAD_BYTES))):
                    raise
                return  # a crash of the machine left zeros
            for chunk in iter_chunks(self.framing, frames, OpenOptions(max_record_bytes=2**62)):
                # A crash may leave zeros behind the data, which look like empty records if frames have no checksums.
                short = np.flatnonzero(chunk.blobs.lengths < self.framing.min_length)
                n_sound = min([*chunk.problems, *short[:1].tolist()], default=len(chunk.blobs))
                yield chunk.blobs.take(slice(0, n_sound))
                if n_sound < len(chunk.blobs):
                    return
        finally:
            stored.release()

    def _count(self, blobs: Blobs) -> None:
        self.n_records += len(blobs)
        self.n_bytes += int(blobs.lengths.sum()) + len(blobs) * self.framing.extra


def _frames_around(blobs: Blobs, framing: Framing) -> memoryview:
    """Return the frames around blobs in their buffer, back to back; without a copy if they lie so."""
    starts, sizes = blobs.starts - framing.head, blobs.lengths + framing.extra
    ends = starts + sizes
    if len(blobs) and np.array_equal(starts[1:], ends[:-1]):
        return blobs.buffer.data[int(starts[0]) : int(ends[-1])]
    return gather(blobs.buffer, starts, sizes)[0].data
