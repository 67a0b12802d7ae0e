"""Writes one file of frames: they are appended, and a prefix of them is always a sound file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.stream import iter_chunks
from dataformats.batch import Blobs
from dataformats.errors import SpecError
from dataformats.interfaces import BlobWriter, OpenOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile

__all__ = ["FramedWriter"]

_LOG = logging.getLogger("dataformats")
_BUFFER_BYTES = 2**20
_BUFFER_RECORDS = 4096


class FramedWriter(BlobWriter):
    """Appends records to one file.

    Args:
        path: Where it grows.
        resume: Keep the records that are whole and sound in what stands there, and go on behind them.

    Attributes:
        framing: What a frame is.
    """

    framing: Framing

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.n_records: int = 0
        self.n_bytes: int = 0
        self._path = path
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._file: BinaryIO | None = None
        self._is_named = False  # the folder's entry of the file is on the disk
        if resume and path.exists():
            self._resume()
        else:
            self._file = path.open("wb")

    def append(self, blob: bytes | bytearray | memoryview) -> None:
        """Append one record.

        Raises:
            TypeError: It is no bytes, bytearray or memoryview.
            SpecError: It is empty, and the format holds no empty records.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            raise TypeError(f"a record of {self.framing.title} file is bytes, found {type(blob).__name__}")
        self._open_file()
        data = bytes(blob)
        if len(data) < self.framing.min_length:
            raise SpecError(
                f"{self.framing.title} file holds no empty records, at which its other readers end: "
                "leave the record out, or give it a field that has a value"
            )
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.n_records += 1
        self.n_bytes += len(data) + self.framing.extra
        if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) >= _BUFFER_RECORDS:
            self._write_pending()

    def flush(self, *, sync: bool = False) -> None:
        """Hand everything to the operating system; the file can be read up to here."""
        file = self._open_file()
        self._write_pending()
        file.write(self._held_back(last=False))
        file.flush()
        if sync:
            os.fsync(file.fileno())
            if not self._is_named:
                atomic.sync(self._path.parent)
                self._is_named = True

    def close(self) -> None:
        """Complete the file and sync it; a second call does nothing."""
        if self._file is None:
            return
        self._write_pending()
        self._file.write(self._held_back(last=True))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def suspend(self) -> None:
        """Let go of the file, incomplete, with every record that was appended if the disk takes them."""
        if self._file is None:
            return
        try:
            self.flush()
        except OSError as error:
            _LOG.warning("%s was left without its last records: %s", self._path, error)
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            _LOG.warning("%s was left incomplete: %s", self._path, error)

    def discard(self) -> None:
        """Delete the file."""
        if self._file is not None:
            file, self._file = self._file, None
            self._pending = []
            try:
                file.close()
            except OSError as error:
                _LOG.warning("%s was not closed: %s", self._path, error)
        atomic.remove(self._path)

    # ---- what compression changes

    def _packed(self, frames: bytes) -> bytes:
        """Return the bytes that go into the file for these frames, as far as they are known."""
        return frames

    def _held_back(self, *, last: bool) -> bytes:
        """Return the bytes that `_packed` has not given yet; `last`: and what completes the file."""
        return b""

    def _unpacked(self, stored: StoredFile) -> StoredFile:
        """Return the frames of a file that is not empty, as a file."""
        return stored

    def _resume(self) -> None:
        """Cut the file behind the last sound record."""
        for blobs in self._sound():
            self._count(blobs)
        self._file = self._path.open("r+b")
        self._file.truncate(self.n_bytes)
        self._file.seek(self.n_bytes)

    # ---- what it does not

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            raise ValueError(f"the writer of {str(self._path)!r} is closed")
        return self._file

    def _write_pending(self) -> None:
        if self._pending:
            data = self.framing.frames(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._open_file().write(self._packed(data))

    def _sound(self) -> Iterator[Blobs]:
        """Yield the records of the file up to the first that is not whole and sound, or that no writer wrote."""
        stored = LocalFile(self._path)
        try:
            if stored.size == 0:
                return
            for stretch in iter_chunks(self.framing, self._unpacked(stored), OpenOptions(max_record_bytes=2**62)):
                # A crash may leave zeros behind the data, which are empty records where there are no checksums.
                short = np.flatnonzero(stretch.blobs.lengths < self.framing.min_length)
                n_sound = min([*stretch.problems, *short[:1].tolist()], default=len(stretch.blobs))
                yield stretch.blobs.take(slice(0, n_sound))
                if n_sound < len(stretch.blobs):
                    return
        finally:
            stored.release()

    def _count(self, blobs: Blobs) -> None:
        self.n_records += len(blobs)
        self.n_bytes += int(blobs.lengths.sum()) + len(blobs) * self.framing.extra
