"""Finds the whole frames of a damaged file, and resumes behind damage at the next frame that is proven to be one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator

import numpy as np

from dataformats.backends.framed.frame_scanner import FrameScanner, read_window
from dataformats.backends.framed.framing import MAX_LENGTH, Framing, Octets
from dataformats.backends.framed.window_scan import ScannedFrames, find_frames
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Loss, SalvagePart
from dataformats.interfaces.stored_file import StoredFile

_WINDOW = 2 * 2**20
_CHECKED_PER_BYTE = 16  # bytes that a search may check for each byte of the file: only a crafted file needs more
_CHECKED_LEAST = 2**26
_CHAIN = 2**16  # what it costs to follow frames

_TOO_SHORT = "the file ends inside the header of a record, or bytes follow the last record"
_PAST_END = "a record reaches past the end of the file"


class FrameEvidence(ABC):
    """Tells frames from other bytes.

    Attributes:
        framing: The frames of the format. If headers are `findable`, a sound header proves that a frame begins there.
        wrong_header: The cause of a loss that begins with an unsound header.
        wrong_data: The cause of a loss that begins with a sound header.
        recognizes_data: False if any bytes may be the data of a record: nothing behind damage is then recognized.
    """

    framing: Framing
    wrong_header: str
    wrong_data: str
    recognizes_data: bool = True

    @abstractmethod
    def damaged(self, window: Octets, frames: ScannedFrames, n_whole: int) -> list[int]:
        """Return the damaged ones among the first `n_whole` frames of a window, in order.

        Args:
            window: A part of the file.
            frames: Its frames.
            n_whole: How many of them end in the window.
        """

    def is_header(self, header: bytes) -> bool:
        """True if a header is sound; its length is not too large."""
        return True

    @abstractmethod
    def is_data(self, file: StoredFile, start: int, length: int) -> bool:
        """True if the `length` bytes from `start` on are the data of a frame; takes little memory to find out."""

    @abstractmethod
    def find(self, window: Octets, max_bytes: int) -> int:
        """Return the first place in a window where a frame of up to `max_bytes` bytes of data could begin, or -1."""

    def possible_lengths(self, header: bytes) -> list[int]:
        """Return the lengths that the data behind an unsound header may have."""
        return []


class FrameSalvage:
    """The sound records of one file, and the losses between them.

    A frame is kept if its header and its data are proven. The search for the next frame behind damage begins one byte
    further on, because bytes may have been inserted or removed.

    Args:
        file: The file, decompressed.
        evidence: Proves frames of the format.
        damage: Why decompressed bytes are missing at the end; `None` if none are.
    """

    def __init__(self, file: StoredFile, evidence: FrameEvidence, damage: FormatError | None = None) -> None:
        self._file, self._evidence, self._framing = file, evidence, evidence.framing
        self._damage = damage
        self._size = file.size
        self._index: int | None = 0
        self._base, self._window = 0, np.zeros(0, np.uint8)
        self._to_check = max(_CHECKED_LEAST, _CHECKED_PER_BYTE * self._size)

    def __iter__(self) -> Iterator[SalvagePart]:
        at = 0
        while at < self._size:
            at = yield from self._run(at)
            if at < self._size:
                stop, cause, records = self._gap(at)
                yield self._lost(at, stop, cause, records)
                at = stop
        if self._damage is not None:
            yield self._lost(at, at, self._damage.what, None)

    # ---- frames back to back

    def _run(self, offset: int) -> Generator[SalvagePart, None, int]:
        """Yield frames from `offset` on, as long as each leads to a next one; return where that ends."""
        while offset < self._size:
            window, frames, n_whole = self._frames(offset)
            damaged = self._evidence.damaged(window, frames, n_whole)
            n = self._n_connected(offset, frames, damaged, n_whole)
            if n:
                yield from self._split(offset, window, frames, damaged, n)
                offset += int(frames.ends[n - 1])
                continue
            if not len(frames.starts) or offset + int(frames.ends[0]) > self._size:
                return offset
            end, length = offset + int(frames.ends[0]), int(frames.lengths[0])
            start = offset + self._framing.head
            is_sound = not self._evidence.recognizes_data or self._evidence.is_data(self._file, start, length)
            if not damaged and is_sound:  # a frame longer than a window
                yield [self._file.pread(start, length)]
                self._count(1)
            elif self._is_border(end) and self._search(offset + 1, before=end) is None:
                yield self._lost(offset, end, self._evidence.wrong_data, 1)
            else:
                return offset
            offset = end
        return offset

    def _frames(self, offset: int) -> tuple[Octets, ScannedFrames, int]:
        """Return a window from `offset` on, its frames, and how many of them end in it."""
        for is_new in (False, True):
            window = self._bytes(offset, self._framing.head, is_new=is_new)
            frames = find_frames(self._framing, window, 0, offset, self._file.name)
            n_whole = int(np.count_nonzero(frames.ends <= len(window)))
            if n_whole or frames.problem is not None:
                break
        return window, frames, n_whole

    def _n_connected(self, offset: int, frames: ScannedFrames, damaged: list[int], n_whole: int) -> int:
        """Return how many frames are sound, or damaged and followed by one that proves where they end."""
        n_proven = len(frames.starts) if self._framing.findable else n_whole
        wrong = set() if self._framing.findable else set(damaged)
        for number in damaged:
            is_followed = number + 1 < n_proven and number + 1 not in wrong
            start, end = offset + int(frames.starts[number]), offset + int(frames.ends[number])
            if not (is_followed or end == self._size) or self._search(start + 1, before=end) is not None:
                return number
        return n_whole

    def _split(
        self, offset: int, window: Octets, frames: ScannedFrames, damaged: list[int], n: int
    ) -> Iterator[SalvagePart]:
        """Yield the first `n` records, and a loss for each damaged one."""
        blobs = Blobs(window, frames.starts + self._framing.head, frames.lengths)
        first = 0
        for number in [*(number for number in damaged if number < n), n]:
            if number > first:
                yield list(blobs.take(slice(first, number)))
                self._count(number - first)
            if number < n:
                start, end = offset + int(frames.starts[number]), offset + int(frames.ends[number])
                yield self._lost(start, end, self._evidence.wrong_data, 1)
            first = number + 1

    # ---- behind damage

    def _gap(self, offset: int) -> tuple[int, str, int | None]:
        """Return where the next frame behind `offset` begins, what is wrong before it, and the records it costs."""
        head, extra = self._framing.head, self._framing.extra
        if offset + head > self._size:
            return self._size, _TOO_SHORT, None
        is_sound, end = self._header(offset)
        if not is_sound:
            proven = self._proven_end(offset)
            if proven is not None:
                return proven, self._evidence.wrong_header, 1
        is_past = is_sound and end > self._size
        found = self._search(offset + 1, before=self._size if is_past and self._framing.findable else None)
        stop = self._size if found is None else found
        is_cut = is_past and found is None
        is_longer = is_sound and end <= stop < end + extra  # bytes were inserted, too few for a record
        is_one = is_cut or is_longer or (stop - offset >= extra and self._is_data(offset, stop - offset - extra))
        cause = _PAST_END if is_past else self._evidence.wrong_data if is_sound else self._evidence.wrong_header
        if self._to_check <= 0:
            cause += "; the search was given up: too many bytes look like records"
        return stop, cause, 1 if is_one else None

    def _search(self, first: int, *, before: int | None = None) -> int | None:
        """Return the first place from `first` on where a frame begins, or `None`.

        Its header and its data are proven; or, if headers are findable, its header and the header of the frame behind
        it.

        Args:
            first: Where the search begins.
            before: Accept only a frame from which others lead exactly to this place. So frames in the data of a record
                are not taken for records: the footer of the record follows them.
        """
        at, stop = first, self._size if before is None else before
        while self._evidence.recognizes_data and at + self._framing.extra <= stop and self._to_check > 0:
            window = self._bytes(at, self._framing.extra)[: stop - at]
            place = self._evidence.find(window, stop - at - self._framing.extra)
            if place < 0:
                at += max(1, len(window) - self._framing.head + 1)
                continue
            at += place
            _, end = self._header(at)
            if end <= stop and before is not None:
                self._to_check -= _CHAIN
                chain = FrameScanner(self._framing, self._file, at)
                chain.extend(before)
                if chain.at == before:
                    return at
                at = max(at, min(chain.at, before) - 1)  # no frame of this chain leads there
            elif end <= stop and self._begins_frame(at, end):
                return at
            at += 1
        return None

    def _begins_frame(self, offset: int, end: int) -> bool:
        followed = self._framing.findable and self._is_header(end)
        return self._is_data(offset, end - offset - self._framing.extra) or followed

    def _proven_end(self, offset: int) -> int | None:
        """Return where a frame ends whose header is unsound, if its data prove it."""
        for length in self._evidence.possible_lengths(self._file.pread(offset, self._framing.head)):
            end = offset + length + self._framing.extra
            if end <= self._size and self._is_header(end) and self._is_data(offset, length):
                return end
        return None

    def _is_border(self, offset: int) -> bool:
        """True if a frame begins at `offset`, or the file ends there."""
        if self._framing.findable:
            return self._is_header(offset) or self._proven_end(offset) is not None
        is_sound, end = self._header(offset)
        return offset == self._size or (is_sound and end <= self._size and self._begins_frame(offset, end))

    def _is_header(self, offset: int) -> bool:
        """True if a sound header begins at `offset`, or the file ends there."""
        return offset == self._size or self._header(offset)[0]

    def _is_data(self, offset: int, length: int) -> bool:
        """True if the data of the frame at `offset` are sound if they have this length."""
        self._to_check -= length
        return self._to_check > 0 and self._evidence.is_data(self._file, offset + self._framing.head, length)

    # ---- bytes and numbers

    def _header(self, offset: int) -> tuple[bool, int]:
        """Return if the header at `offset` is sound, and where its frame ends, perhaps behind the file."""
        head, first = self._framing.head, offset - self._base
        is_here = 0 <= first <= len(self._window) - head
        header = self._window[first : first + head].tobytes() if is_here else self._file.pread(offset, head)
        if len(header) < head:
            return False, self._size
        length = int.from_bytes(header[:8], "little")
        return length <= MAX_LENGTH and self._evidence.is_header(header), offset + length + self._framing.extra

    def _bytes(self, offset: int, min_bytes: int, *, is_new: bool = False) -> Octets:
        """Return bytes from `offset` on: `min_bytes` or more, fewer only at the end of the file."""
        first = offset - self._base
        n_there = len(self._window) - first
        if is_new or first < 0 or n_there < min(min_bytes, self._size - offset):
            self._base, first = offset, 0
            self._window = read_window(self._file, offset, _WINDOW)
        return self._window[first:]

    def _count(self, n: int) -> None:
        if self._index is not None:
            self._index += n

    def _lost(self, start: int, stop: int, cause: str, records: int | None) -> Loss:
        loss = Loss(self._file.name, cause, start, stop, self._index, records)
        self._index = None if records is None or self._index is None else self._index + records
        return loss
