"""ArrayRecordWriter: writes one file by the library."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from dataformats.backends.array_record.library import array_record
from dataformats.interfaces import BlobWriter


class ArrayRecordWriter(BlobWriter):
    """Writes one ArrayRecord file. Not thread-safe.

    Args:
        group_size: Records of a chunk.
        compression: See `ArrayRecordBackend.create`.

    Raises:
        ValueError: No such group size.
    """

    def __init__(self, path: Path, group_size: int, compression: str) -> None:
        self.n_records: int = 0
        self.n_bytes: int = 0
        if not 1 <= group_size < 2**31:
            raise ValueError(f"group_size: expected 1 to {2**31 - 1}, found {group_size}")
        self._path = path
        codec = "uncompressed" if compression == "none" else compression
        self._writer = array_record().ArrayRecordWriter(str(path), f"group_size:{group_size},{codec}")

    def append(self, blob: bytes) -> None:
        try:
            self._writer.write(bytes(blob))
        except RuntimeError as error:
            raise _os_error(error, self._path) from error
        self.n_records += 1
        self.n_bytes += len(blob)

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: without its end, the file cannot be read."""

    def close(self) -> None:
        try:
            self._writer.close()
        except RuntimeError as error:
            raise _os_error(error, self._path) from error
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def suspend(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._writer.close()

    def discard(self) -> None:
        self.suspend()
        self._path.unlink(missing_ok=True)


def _os_error(error: RuntimeError, path: Path) -> OSError:
    """Return the error of the system that the library tells in a text: `write() failed: File too large; ...`."""
    text = str(error)
    number = next((number for number in errno.errorcode if f"() failed: {os.strerror(number)};" in text), errno.EIO)
    return OSError(number, text, str(path))
