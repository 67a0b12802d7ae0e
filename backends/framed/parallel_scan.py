"""Goes through a large file in several places at once, where headers can be found from any place.

A piece is entered at the first bytes that could be a header: they may be data that look like one (records that hold
TFRecords do). So nothing that a piece found is believed until the chain of frames from the first byte of the file
arrives at one of its frames: from there on both are the same, because what follows a frame depends on nothing before
it. Where the chain arrives at none, the piece is gone through again, from where the chain stands.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, wait
from itertools import pairwise

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.scanner import FrameScanner, only_headers, read_window
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.gzip_file import DecompressedFile
from dataformats.storage.threads import processors, submit

__all__ = ["extend_in_pieces"]

_PIECE = 16 * 2**20
_MEAN_FRAMES = 64  # a piece has at least so many: finding the first costs half of one on the average
_SEARCH = 2**18  # bytes searched at once for a header
_SEARCHED_FRAMES = 16  # records may differ in size, but not all pieces lie inside one
_ATTEMPTS = 8  # data may be made of what looks like headers, and each costs a window


def extend_in_pieces(chain: FrameScanner, framing: Framing, file: StoredFile) -> bool:
    """Extend a chain by pieces of the file behind it that are gone through in parallel, as far as that is quicker.

    What it adds is what `chain.extend` would have added. Return False where the file cannot be read on.

    Args:
        chain: It begins at the file's first byte and holds some frames.
        framing: What a frame is.
        file: The file, decompressed.
    """
    if (
        not framing.findable
        or isinstance(file, DecompressedFile)
        or only_headers(file, chain.mean_frame)
        or processors() < 2
    ):
        return True
    size = max(_PIECE, _MEAN_FRAMES * chain.mean_frame)
    if file.size - chain.at < 2 * size:
        return True
    cuts = [*range(chain.at, file.size - size, size), file.size]
    pieces = [_Piece(framing, file, first, stop, chain.mean_frame) for first, stop in pairwise(cuts)]
    found = _in_order(pieces)
    try:
        return all(_join(chain, other, piece.stop) for piece, other in zip(pieces, found, strict=True))
    finally:
        found.close()


def _join(chain: FrameScanner, other: FrameScanner | None, stop: int) -> bool:
    """Extend a chain to the end of a piece by what was found in it; return False where the file cannot be read on."""
    if other is not None:
        if not chain.extend(other.first):  # a few frames, if any
            return False
        if chain.adopt(other):
            return True
    return chain.extend(stop)


class _Piece:
    """A part of a file that is gone through by itself.

    Args:
        framing: What a frame is.
        file: The file.
        first: Where it begins, in the midst of anything.
        stop: Where it ends.
        mean_frame: Bytes of a frame, about.
    """

    def __init__(self, framing: Framing, file: StoredFile, first: int, stop: int, mean_frame: int) -> None:
        self.first, self.stop = first, stop
        self._framing, self._file = framing, file
        self._most_searched = _SEARCH + _SEARCHED_FRAMES * mean_frame

    def walk(self, stopped: threading.Event) -> FrameScanner | None:
        """Return a chain of frames that reaches the end of the piece, or `None` where none was found.

        The last one: records that hold frames lead a walk astray until they end.
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
        """Return where from `first` on something stands that could be a header, if it is not too far away."""
        last = self._file.size - self._framing.extra  # no frame begins behind it
        limit = min(first + self._most_searched, self.stop, last + 1)
        for at in range(first, limit, _SEARCH):
            window = read_window(self._file, at, min(_SEARCH, limit - at) + self._framing.head - 1)
            found = self._framing.find(window, last - at)
            if found >= 0:
                return at + found
        return None


def _in_order(pieces: list[_Piece]) -> Generator[FrameScanner | None]:
    """Yield what was found in each piece, in order; so many are worked on as there are threads."""
    waiting: deque[Future[FrameScanner | None]] = deque()
    stopped = threading.Event()
    left = iter(pieces)
    try:
        for _ in pieces:
            for piece in left:
                waiting.append(submit(piece.walk, stopped))
                if len(waiting) > processors():
                    break
            yield waiting.popleft().result()
    finally:
        stopped.set()
        wait([future for future in waiting if not future.cancel()])  # those that have begun are reading the file
