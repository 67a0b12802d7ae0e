"""Writes one TFRecord file, which may be compressed as a whole."""

from __future__ import annotations

import secrets
import zlib
from pathlib import Path
from typing import Any

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.writer import FramedWriter
from dataformats.backends.tfrecord.layout import FRAMING, frames
from dataformats.backends.tfrecord.sniff import Compression, decompressed
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic

__all__ = ["TFRecordWriter"]

_WBITS = {"gzip": 31, "zlib": 15}
_LEVEL = 6


class TFRecordWriter(FramedWriter):
    """Appends records to one file.

    Args:
        path: Where it grows.
        resume: Keep the records that are whole and sound in what stands there, and go on behind them.
        compression: Of the whole file. Compressed files of the same records and flushes are the same bytes.
    """

    framing: Framing = FRAMING

    def __init__(self, path: Path, *, resume: bool = False, compression: Compression = "none") -> None:
        self._compression: Compression = compression
        self._compressor = self._fresh()
        super().__init__(path, resume=resume)

    def _fresh(self) -> Any:
        """Return a new compressor, or `None`; it writes no time, so that files are the same each time."""
        if self._compression == "none":
            return None
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, _WBITS[self._compression])

    def _packed(self, frames: bytes) -> bytes:
        return frames if self._compressor is None else bytes(self._compressor.compress(frames))

    def _held_back(self, *, last: bool) -> bytes:
        if self._compressor is None:
            return b""
        return bytes(self._compressor.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH))

    def _unpacked(self, stored: StoredFile) -> StoredFile:
        return decompressed(stored, self._compression)

    def _resume(self) -> None:
        if self._compression == "none":
            super()._resume()
        else:
            self._resume_compressed()

    def _resume_compressed(self) -> None:
        """Compress what can be recovered again, into a file that then takes the old one's place."""
        fresh = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.partial")
        self._file = fresh.open("wb")
        self._is_named = True
        try:
            for blobs in self._sound():
                self._count(blobs)
                self._file.write(self._packed(frames(list(blobs))))
            self.flush(sync=True)
            atomic.publish(fresh, self._path)
        except BaseException:
            self._file.close()
            fresh.unlink(missing_ok=True)
            raise
