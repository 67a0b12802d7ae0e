"""Writes one TFRecord file: appended frames, a prefix of which is always a sound file."""

from __future__ import annotations

import logging
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from dataformats.backends.tfrecord.content import decompressed
from dataformats.backends.tfrecord.layout import FRAMING_BYTES, frames
from dataformats.backends.tfrecord.stream import stream
from dataformats.batch import Blobs
from dataformats.interfaces import BlobWriter
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile, release

__all__ = ["TFRecordWriter"]

_LOG = logging.getLogger("dataformats")
_WBITS = {"gzip": 31, "zlib": 15}
_LEVEL = 6
_BUFFER_BYTES = 2**20
_BUFFER_RECORDS = 4096


class TFRecordWriter(BlobWriter):
    """Appends records to one file.

    Args:
        path: Where it grows.
        resume: Keep the records that are whole and sound in what stands there, and go on behind them.
        compression: Of the whole file. Compressed files of the same records and flushes are the same bytes.
    """

    def __init__(
        self, path: Path, *, resume: bool = False, compression: Literal["gzip", "zlib", "none"] = "none"
    ) -> None:
        self._path = path
        self._compression = compression
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._compressor = self._fresh()
        self._file: BinaryIO | None = None
        if not resume or not path.exists():
            self._file = path.open("wb")
            self._is_named = False
        elif compression == "none":
            self._resume_plain()
        else:
            self._resume_compressed()

    def append(self, blob: bytes | bytearray | memoryview) -> None:
        """Append one record.

        Raises:
            TypeError: It is no bytes, bytearray or memoryview.
        """
        if not isinstance(blob, (bytes, bytearray, memoryview)):
            raise TypeError(f"a record of a TFRecord file is bytes, found {type(blob).__name__}")
        self._open_file()
        data = bytes(blob)
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.n_records += 1
        self.n_bytes += len(data) + FRAMING_BYTES
        if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) >= _BUFFER_RECORDS:
            self._write_pending()

    def flush(self, *, sync: bool = False) -> None:
        """Hand everything to the operating system; a compressed file can be read up to here, too."""
        file = self._open_file()
        self._write_pending()
        if self._compressor is not None:
            file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
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
        if self._compressor is not None:
            self._file.write(self._compressor.flush(zlib.Z_FINISH))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def leave(self) -> None:
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

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            raise ValueError(f"the writer of {str(self._path)!r} is closed")
        return self._file

    def _fresh(self) -> Any:
        """Return a new compressor, or `None`; it writes no time, so that files are the same each time."""
        if self._compression == "none":
            return None
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, _WBITS[self._compression])

    def _write_pending(self) -> None:
        if self._pending:
            data = frames(self._pending)
            self._pending, self._pending_bytes = [], 0
            self._open_file().write(data if self._compressor is None else self._compressor.compress(data))

    def _resume_plain(self) -> None:
        """Cut the file behind the last sound record."""
        for blobs in _sound(self._path, "none"):
            self._count(blobs)
        self._file = self._path.open("r+b")
        self._file.truncate(self.n_bytes)
        self._file.seek(self.n_bytes)
        self._is_named = False

    def _resume_compressed(self) -> None:
        """Compress what can be recovered again, into a file that then takes the old one's place."""
        fresh = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.partial")
        self._file = fresh.open("wb")
        self._is_named = True
        try:
            for blobs in _sound(self._path, self._compression):
                self._count(blobs)
                self._file.write(self._compressor.compress(frames(list(blobs))))
            self.flush(sync=True)
            atomic.publish(fresh, self._path)
        except BaseException:
            self._file.close()
            fresh.unlink(missing_ok=True)
            raise

    def _count(self, blobs: Blobs) -> None:
        self.n_records += len(blobs)
        self.n_bytes += int(blobs.lengths.sum()) + len(blobs) * FRAMING_BYTES


def _sound(path: Path, compression: Literal["gzip", "zlib", "none"]) -> Iterator[Blobs]:
    """Yield the records of a file up to the first that is not whole and sound."""
    stored = LocalFile(path)
    try:
        if stored.size == 0:
            return
        for stretch in stream(decompressed(stored, compression), verify_checksums=True):
            n_sound = min(stretch.problems, default=len(stretch.blobs))
            yield stretch.blobs.take(slice(0, n_sound))
            if stretch.problems:
                return
    finally:
        release(stored)
