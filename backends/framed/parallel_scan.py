"""Scans a large file in several places at once, if headers can be found from any place.

The scan of a piece begins at the first bytes that could be a header. They may be data that look like one: records
that hold TFRecords do. So the frames of a piece are used only after the chain of frames from the first byte of the
file arrives at one of them. From there on both are the same, because the bytes behind a frame do not depend on those
before it. If the chain arrives at none, the piece is scanned again, from the end of the chain.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, wait
from itertools import pairwise

from dataformats.backends.framed.frame_scanner import FrameScanner, only_headers, read_window
from dataformats.backends.framed.framing import Framing
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.threads import processors, submit

_PIECE = 16 * 2**20
_MEAN_FRAMES = 64  # the fewest frames of a piece: finding the first costs half of one on average
_SEARCH = 2**18  # bytes searched at once for a header
_SEARCHED_FRAMES = 16  # records may differ in size, but not all pieces lie inside one
_PATIENCE_S = 10.0
_ATTEMPTS = 8  # data may consist of bytes that look like headers, and each attempt costs a window


def extend_in_pieces(chain: FrameScanner, framing: Framing, file: StoredFile) -> bool:
    """Scan the rest of a large file in parallel, and append the frames to a chain.

    The result equals the result of `chain.extend`. A file that is too small for a gain leaves the chain unchanged.
    Returns False if the rest of the file is unreadable.

    Args:
        chain: The frames found so far, from the file's first byte on; at least one.
        framing: The frames of the format.
        file: The file, decompressed.
    """
    if not framing.findable or file.is_compressed or only_headers(file, chain.mean_frame) or processors() < 2:
        return True
    size = max(_PIECE, _MEAN_FRAMES * chain.mean_frame)
    if file.size - chain.at < 2 * size:
        return True
    cuts = [*range(chain.at, file.size - size, size), file.size]
    pieces = [_Piece(framing, file, first, stop, chain.mean_frame) for first, stop in pairwise(cuts)]
    scans = _in_order(pieces)
    try:
        return all(_join(chain, other, piece.stop) for piece, other in zip(pieces, scans, strict=True))
    finally:
        scans.close()


def _join(chain: FrameScanner, other: FrameScanner | None, stop: int) -> bool:
    """Extend a chain to the end of a piece by the frames found there; return False if the file cannot be read on."""
    if other is not None:
        if not chain.extend(other.first):  # a few frames, if any
            return False
        if chain.adopt(other):
            return True
    return chain.extend(stop)


class _Piece:
    """A part of a file that is scanned by itself.

    Args:
        framing: The frames of the format.
        file: The file.
        first: Its first byte, which may lie inside a frame.
        stop: The byte behind it.
        mean_frame: Mean bytes of a frame.
    """

    def __init__(self, framing: Framing, file: StoredFile, first: int, stop: int, mean_frame: int) -> None:
        self.first, self.stop = first, stop
        self._framing, self._file = framing, file
        self._most_searched = _SEARCH + _SEARCHED_FRAMES * mean_frame

    def scan(self, stopped: threading.Event) -> FrameScanner | None:
        """Return a chain of frames that reaches the end of the piece, or `None` if none was found.

        The last of several attempts counts: a scan that begins inside a record of frames ends with that record.
        """
        at = self.first
        for _ in range(_ATTEMPTS):
            first = self._candidate(at)
            if first is None or stopped.is_set():
                return None
            chain = FrameScanner(self._framing, self._file, first)
            if chain.extend(self.stop):
                return chain
            at = max(chain.at, first + 1)
        return None

    def _candidate(self, first: int) -> int | None:
        """Return the next place from `first` on that could be a header, if it is not too far away."""
        last = self._file.size - self._framing.extra  # no frame begins behind it
        limit = min(first + self._most_searched, self.stop, last + 1)
        for at in range(first, limit, _SEARCH):
            window = read_window(self._file, at, min(_SEARCH, limit - at) + self._framing.head - 1)
            place = self._framing.find_header(window, last - at)
            if place >= 0:
                return at + place
        return None


def _in_order(pieces: list[_Piece]) -> Generator[FrameScanner | None]:
    """Yield the chain of each piece, in order; one piece a thread is scanned at a time."""
    waiting: deque[Future[FrameScanner | None]] = deque()
    stopped = threading.Event()
    left = iter(pieces)
    try:
        for _ in pieces:
            for piece in left:
                waiting.append(submit(piece.scan, stopped))
                if len(waiting) > processors():
                    break
            yield waiting.popleft().result()
    finally:
        stopped.set()
        # Those that have begun read the file. The garbage collector may end this generator, in a thread that holds a
        # lock for which they wait.
        wait([future for future in waiting if not future.cancel()], _PATIENCE_S)
