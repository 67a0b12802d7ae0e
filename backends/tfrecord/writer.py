"""Writes one TFRecord file, plain or compressed as a whole."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.writer import FramedWriter
from dataformats.backends.tfrecord.compression import Compression, decompressed
from dataformats.backends.tfrecord.layout import FRAMING, frames
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic
from dataformats.storage.decompressor import WBITS

__all__ = ["TFRecordWriter"]

_LEVEL = 6
_LARGE_BYTES = 8 * 2**20  # longer frames are compressed part by part, without a copy


class TFRecordWriter(FramedWriter):
    """Appends records to one file.

    Args:
        path: The file.
        resume: Keep the whole and sound records at the front of the file, and append to them.
        compression: Of the whole file. The same records and flushes give the same compressed bytes, unless the file
            was resumed.
    """

    framing: Framing = FRAMING

    def __init__(self, path: Path, *, resume: bool = False, compression: Compression = "none") -> None:
        self._compression: Compression = compression
        self._compressor = self._new_compressor()
        super().__init__(path, resume=resume)

    def _new_compressor(self) -> Any:
        """Return a compressor, or `None`. It writes no time of day, so that equal data give equal files."""
        if self._compression == "none":
            return None
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, WBITS[self._compression])

    def _compressed(self, parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        if self._compressor is None:
            return parts
        joined = parts if sum(map(len, parts)) > _LARGE_BYTES else [b"".join(parts)]
        return [bytes(self._compressor.compress(part)) for part in joined]

    def _flushed(self, *, last: bool) -> bytes:
        if self._compressor is None:
            return b""
        return bytes(self._compressor.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH))

    def _decompressed(self, stored: StoredFile) -> StoredFile:
        return decompressed(stored, self._compression)

    def _resume(self) -> None:
        if self._compression == "none":
            super()._resume()
        else:
            self._resume_compressed()

    def _resume_compressed(self) -> None:
        """Compress the recovered records again, into a file that then replaces the old one."""
        fresh = self._path.with_name(f"{self._path.name}.partial")
        self._open(fresh)
        self._is_named = True
        try:
            for blobs in self._sound():
                self._count(blobs)
                self._write(*self._compressed([frames(list(blobs))]))
            self.flush(sync=True)
            atomic.publish(fresh, self._path)
        except BaseException:
            self._open_file().close()
            fresh.unlink(missing_ok=True)
            raise
