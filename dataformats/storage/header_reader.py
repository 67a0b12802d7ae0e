"""Read the headers that lie between the data of a file, in order."""

from __future__ import annotations

from dataformats.interfaces.stored_file import StoredFile

_LONG = 2**16  # mean bytes between headers that are read one by one
_HEAD_BYTES, _LOCAL_BYTES, _REMOTE_BYTES = 2**12, 2**20, 2**23


class HeaderReader:
    """Reads headers in the order of their places: many in one buffer, or one by one if the data between them are long.

    Args:
        file: The file with the headers.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._buffer, self._base = b"", 0
        self._n_headers = 0

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` on, fewer only at the end of the file."""
        begin = offset - self._base
        if not 0 <= begin <= begin + length <= len(self._buffer):
            is_long = offset > _LONG * self._n_headers > 0
            usual = _LOCAL_BYTES if self._file.local is not None else _REMOTE_BYTES
            self._buffer = self._file.pread(offset, max(length, _HEAD_BYTES if is_long else usual))
            self._base, begin = offset, 0
        self._n_headers += 1
        return self._buffer[begin : begin + length]
