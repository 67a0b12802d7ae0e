"""Writes one file of frames, or lines, plain or compressed as a whole."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from dataformats.backends.framed.writer import FramedWriter
from dataformats.errors import SpecError
from dataformats.interfaces import FilePlace, Reader
from dataformats.storage import atomic
from dataformats.storage.compressed.decompressor import WBITS
from dataformats.storage.compressed.zstd_frames import ZstdCompressor
from dataformats.storage.files import LocalFile
from dataformats.writing.appending_writer import LARGE_BYTES

_LEVEL = 6
_HELD_BACK_BYTES = 8 * 2**20  # zlib holds back at most 16,384 copies of 258 bytes and 64 KB; our zstd frames 1 MiB


class CompressedWriter(FramedWriter):
    """Appends records to one file.

    Args:
        path: The file.
        resume: Keep the whole and sound records at the front of the file, and append to them.
        compression: The compression of the whole file. The same records give the same compressed bytes, also after a
            resume; each `flush` adds some.
        place: See `FramedWriter`; compressed files get no index.
    """

    def __init__(
        self,
        path: Path,
        *,
        resume: bool = False,
        compression: Literal["auto", "gzip", "zlib", "zstd", "none"] = "none",
        place: FilePlace | None = None,
    ) -> None:
        self._compression: Literal["auto", "gzip", "zlib", "zstd", "none"] = compression
        self._compressor = self._new_compressor()
        self.flush_adds_bytes: bool = compression != "none"
        self._fresh: Path | None = None  # replaces the resumed file,
        self._replace_at = math.inf  # when this number of bytes is appended, or flushed
        super().__init__(path, resume=resume, place=None if self.flush_adds_bytes else place)

    def _new_compressor(self) -> Any:
        """Return a compressor, or `None`. It writes no time of day, so that equal data give equal files."""
        if self._compression == "none":
            return None
        if self._compression == "zstd":
            return ZstdCompressor()
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, WBITS[self._compression])

    def _compressed(self, parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        if self._compressor is None:
            return parts
        joined = parts if sum(map(len, parts)) > LARGE_BYTES else [b"".join(parts)]
        return [bytes(self._compressor.compress(part)) for part in joined]

    def end(self) -> bytes:
        """Return the end of the compressed data."""
        return b"" if self._compressor is None else bytes(self._compressor.flush(zlib.Z_FINISH))

    def flush(self, *, sync: bool = False) -> None:
        """Flush buffers to the operating system; the file can then be read up to here."""
        self._open_file()
        if self._compressor is not None:
            self._write_pending()
            self._write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
            self._take_name()
        super().flush(sync=sync)

    def close(self, *, sync: bool = True) -> None:
        """Complete the file and sync it; a second call is a no-op."""
        super().close(sync=sync)
        self._take_name()

    def _resume(self) -> None:
        if self._compression == "none":
            super()._resume()
        else:
            self._resume_compressed()

    def _resume_compressed(self) -> None:
        """Compress the recovered records again, into a file that then replaces the old one.

        A flush would change its bytes. So the old file stays until the new one surely has all records of it.
        """
        self._fresh = self._path.with_name(f"{self._path.name}.partial")
        self._open(self._fresh)
        stored = LocalFile(self._path)
        try:
            for chunk in self._sound(stored):
                self._count(len(chunk.blobs), int(chunk.blobs.lengths.sum()))
                self._write(*self._compressed(self.framing.framed(list(chunk.blobs)).parts))
        except BaseException:
            self._open_file().close()
            self._fresh.unlink(missing_ok=True)
            raise
        finally:
            stored.release()
        self._replace_at = self.n_bytes + _HELD_BACK_BYTES

    def _write(self, *parts: bytes | memoryview) -> None:
        super()._write(*parts)
        if self.n_bytes >= self._replace_at:
            self._take_name()

    def _take_name(self) -> None:
        """Give the new file its name; all its bytes so far are written."""
        if self._fresh is not None:
            atomic.sync(self._fresh)
            self._fresh.replace(self._path)
            self._fresh, self._replace_at, self._is_named = None, math.inf, False

    def discard(self) -> None:
        super().discard()
        if self._fresh is not None:
            atomic.remove(self._fresh)
            self._fresh = None


def options_of_reader(reader: Reader, *, named: bool) -> dict[str, Any]:
    """Return the compression for further shards; the name of a single file shows it. See `options_like` of a backend.

    Raises:
        SpecError: The files differ in it.
    """
    if named:
        return {}
    found = {file.compression for file in reader.files}
    if len(found) > 1:
        raise SpecError(f"the files differ in compression: {' and '.join(sorted(found))}")
    return {"compression": found.pop() if found else "none"}
