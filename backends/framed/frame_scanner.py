"""Scans a file from one place on, window by window, without reading the data of large records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing, Octets
from dataformats.backends.framed.window_scan import cut_short, header_problem, no_frame
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import UNSOUND
from dataformats.storage.remote.systems import is_url

END = 2**63
"""An offset past the end of every file."""

_WINDOW = 2**19  # stays in the cache of a core while it is scanned
_REMOTE_WINDOW = 4 * 2**20  # each is a request
_SKIP_LOCAL = 64 * 1024  # reading only the headers is faster if mean frames are larger than this
_SKIP_REMOTE = 8 * 2**20
_HEADERS_ONLY = 4096


class FrameScanner:
    """A chain of frames, back to back from some place of a file, which grows by scanning.

    Args:
        framing: The frames of the format.
        file: The file, decompressed.
        first: Where its first frame begins.
        progress: Called with the bytes scanned since the last call.

    Attributes:
        first: Where its first frame begins.
        at: Where the next frame begins.
        n_frames: Number of frames.
        rest: Why the file cannot be read on from `at`; `None` if it can, or if it ends there.
    """

    def __init__(
        self, framing: Framing, file: StoredFile, first: int = 0, progress: Callable[[int], None] | None = None
    ) -> None:
        self.first = first
        self.at: int = first
        self.n_frames: int = 0
        self.rest: FormatError | None = None
        self._framing, self._file = framing, file
        self._progress, self._reported = progress, first
        self._lengths: list[NDArray[Any]] = [np.zeros(0, np.int64)]
        self._stored = [np.zeros(0, np.uint32)]
        self._lead = 0  # bytes in front of `at` that the next window begins with

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n], bytes of data of each frame."""
        if len(self._lengths) > 1:
            self._lengths = [np.concatenate(self._lengths, dtype=np.int64)]
        return self._lengths[0]

    @property
    def stored(self) -> NDArray[np.uint32]:
        """uint32[n], the footers; meaningless if the format has none."""
        if len(self._stored) > 1:
            self._stored = [np.concatenate(self._stored)]
        return self._stored[0]

    @property
    def mean_frame(self) -> int:
        """Mean bytes of a frame."""
        return (self.at - self.first) // max(1, self.n_frames)

    def extend(self, until: int = END) -> bool:
        """Scan to the first frame that begins at `until` or behind it.

        Returns False if the file ends before, or cannot be read on.
        """
        buffer = _ScanBuffer(self._framing, self._file)
        while self.at < until:
            if not self._step(buffer, until):
                return False
        # The footer of the last frame may not have been read, and may be missing.
        return self._lead == 0 or self._read_lead(buffer.read(self.at - self._lead, self._lead))

    def adopt(self, other: FrameScanner) -> bool:
        """Append the frames of another chain from `at` on; return False if none of them begins there."""
        starts = other.first + np.cumsum(other.lengths + self._framing.extra) - other.lengths - self._framing.extra
        n = int(np.searchsorted(starts, self.at))
        if self._lead or n == len(starts) or starts[n] != self.at:
            return False
        self._append(other.lengths[n:], other.stored[n:])
        self.at = other.at
        self._report(self.at)
        return True

    def _step(self, buffer: _ScanBuffer, until: int) -> bool:
        """Scan one window."""
        # It begins with the footer of the frame before it, which need not lie in the last window. Without footers
        # it begins with the last byte of that frame, to find out that the byte exists.
        lead = self._lead
        want = min(buffer.usual(self.mean_frame if self.n_frames else 0), until - self.at + self._framing.head - 1)
        window = buffer.read(self.at - lead, lead + want)
        if lead and not self._read_lead(window):
            return False
        n, stop, why = self._framing.scan_window(window, lead, buffer.lengths, buffer.footers)
        self._append(buffer.lengths[:n], buffer.footers[:n].copy())
        base, self.at = self.at - lead, self.at - lead + stop
        if why == UNSOUND:
            self.rest = header_problem(self._framing, window, stop, base, self._file.name)
        elif n == 0 and len(window) > lead:
            self.rest = no_frame(self._framing, self.at, len(window) - lead, self._file.name)
        self._lead = max(self._framing.tail, 1) if stop > len(window) else 0
        self._report(min(self.at, base + len(window)))
        return n > 0 and why != UNSOUND

    def _read_lead(self, window: Octets) -> bool:
        """Take the footer of the last frame from the front of a window; return False if it is missing."""
        lead, self._lead = self._lead, 0
        if len(window) < lead:
            self._drop_last()
            return False
        if self._framing.tail:
            self._stored[-1][-1] = window[: self._framing.tail].view("<u4")[0]
        return True

    def _drop_last(self) -> None:
        """Drop the last frame, which ends past the end of the file."""
        length = int(self._lengths[-1][-1])
        self._lengths[-1], self._stored[-1] = self._lengths[-1][:-1], self._stored[-1][:-1]
        self.n_frames -= 1
        self.at -= length + self._framing.extra
        self.rest = cut_short(self._framing, self.at, length, self._file.size, self._file.name)

    def _report(self, done: int) -> None:
        """Report that the file was scanned up to `done`, which is inside it."""
        if self._progress is not None and done > self._reported:
            self._progress(done - self._reported)
            self._reported = done

    def _append(self, lengths: NDArray[np.int64], stored: NDArray[np.uint32]) -> None:
        if len(lengths):
            narrow = np.uint32 if lengths.max() < 2**32 else np.int64  # half of the memory, for millions of frames
            self._lengths.append(lengths.astype(narrow))
            self._stored.append(stored)
            self.n_frames += len(lengths)


class _ScanBuffer:
    """Reads parts of a file into one buffer, because new memory costs more than the reading."""

    def __init__(self, framing: Framing, file: StoredFile) -> None:
        self._file = file
        self._window = _REMOTE_WINDOW if is_url(file.name) and not file.is_compressed else _WINDOW
        self._buffer = np.empty(self._window + framing.extra, np.uint8)
        room = len(self._buffer) // framing.extra + 1
        self.lengths, self.footers = np.empty(room, np.int64), np.empty(room, np.uint32)

    def usual(self, mean_frame: int) -> int:
        """Return the bytes of a window for frames of this mean size."""
        return _HEADERS_ONLY if only_headers(self._file, mean_frame) else self._window

    def read(self, offset: int, max_bytes: int) -> Octets:
        """Return up to `max_bytes` bytes, valid until the next call; fewer only at the end of the file."""
        return read_window(self._file, offset, max_bytes, self._buffer)


def only_headers(file: StoredFile, mean_frame: int) -> bool:
    """True if frames are so large that reading only their headers is faster."""
    if file.is_compressed:
        return False
    return mean_frame > (_SKIP_REMOTE if file.local is None else _SKIP_LOCAL)


def read_window(file: StoredFile, offset: int, max_bytes: int, buffer: Octets | None = None) -> Octets:
    """Return up to `max_bytes` bytes from `offset` on, uint8[n]; fewer only at the end of the file.

    Args:
        file: The file.
        offset: The first of them.
        max_bytes: Their greatest number.
        buffer: uint8[`max_bytes` or more] to read into; `None` allocates one.
    """
    if not file.is_compressed:  # the size of decompressed data is not known beforehand
        max_bytes = max(0, min(max_bytes, file.size - offset))
    window = np.empty(max_bytes, np.uint8) if buffer is None else buffer[:max_bytes]
    return window[: file.read_into(offset, window.data)] if max_bytes else window
