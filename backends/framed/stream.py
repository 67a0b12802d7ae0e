"""Reads the records of a file in order, without an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dataformats.backends.framed.file_scan import damage_at
from dataformats.backends.framed.frame_scanner import read_window
from dataformats.backends.framed.framing import Framing, Octets
from dataformats.backends.framed.window_scan import ScannedFrames, cut_short, find_frames, no_frame
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import ReaderOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.reference_read import too_long

_WINDOW = 2 * 2**20
_FIRST_WINDOW = 2**17  # a caller that wants a few records does not wait for many


def iter_chunks(framing: Framing, file: StoredFile, options: ReaderOptions) -> Iterator[RecordChunk]:
    """Yield the records of a file in order; the blobs are views of the windows that were read.

    A window holds whole frames and the beginning of one more, which is copied to the front of the next window.
    Memory for a frame larger than a window is allocated only if the file is large enough to hold the frame, and never
    for more than `max_record_bytes`: a longer record becomes a problem, and reading continues behind it.
    """
    base, carry, want, usual = 0, np.zeros(0, np.uint8), _FIRST_WINDOW, _FIRST_WINDOW
    while True:
        octets, ended = _extended(file, base, carry, want)
        window = _StreamBuffer(framing, file, octets, base, ended, find_frames(framing, octets, 0, base, file.name))
        problem = window.problem()
        skipped = None if problem else window.too_long(options.max_record_bytes)
        chunk = window.chunk(options, problem or skipped)
        if len(chunk.blobs):
            yield chunk
        if problem or (ended and not skipped):
            return
        carry, base = octets[window.stop :], base + window.stop
        if skipped:
            carry, base = carry[:0], base + framing.extra + int(window.frames.lengths[window.n_whole])
        usual = min(2 * usual, _WINDOW)
        want = max(usual, window.missing_bytes(len(carry)))


def _extended(file: StoredFile, base: int, carry: Octets, want: int) -> tuple[Octets, bool]:
    """Return a window of `carry` and the bytes behind it in the file, and True if the file ends with it."""
    offset = base + len(carry)
    if not file.is_compressed:
        want = max(0, min(want, file.size - offset))
    if not len(carry):
        window = read_window(file, offset, want)
        n = len(window)
    else:
        window = np.empty(len(carry) + want, np.uint8)
        window[: len(carry)] = carry
        n = file.read_into(offset, window.data[len(carry) :]) if want else 0
    window = window[: len(carry) + n]
    window.flags.writeable = False
    return window, n < want if file.is_compressed else offset + n >= file.size


@dataclass(frozen=True, slots=True)
class _StreamBuffer:
    """A part of a file, the frames that begin in it, and whether the file ends with it."""

    framing: Framing
    file: StoredFile
    octets: Octets
    base: int
    ended: bool
    frames: ScannedFrames

    @property
    def n_whole(self) -> int:
        """Number of frames that lie in the window with all their bytes."""
        return int(np.count_nonzero(self.frames.ends <= len(self.octets)))

    @property
    def stop(self) -> int:
        """Where the last of these ends."""
        return int(self.frames.ends[self.n_whole - 1]) if self.n_whole else 0

    def problem(self) -> FormatError | None:
        """Return why the file cannot be read on, or `None`."""
        return self.frames.problem or self._rest()

    def _rest(self) -> FormatError | None:
        whole, offset, path = self.n_whole, self.base + self.stop, self.file.name
        rest: FormatError | None = None
        if whole < len(self.frames.starts):
            length = int(self.frames.lengths[whole])
            announced = offset + length + self.framing.extra
            if self.ended or (not self.file.is_compressed and announced > self.file.size):
                rest = cut_short(self.framing, offset, length, self.file.size, path)
        elif self.ended and self.stop < len(self.octets):
            rest = no_frame(self.framing, offset, len(self.octets) - self.stop, path)
        return damage_at(self.file, offset, rest) if self.ended else rest

    def too_long(self, max_bytes: int) -> FormatError | None:
        """Return why the incomplete frame is skipped, or `None` if it is not."""
        whole = self.n_whole
        if whole == len(self.frames.starts) or self.frames.lengths[whole] <= self.file.most_record_bytes(max_bytes):
            return None
        offset, length = self.base + self.stop, int(self.frames.lengths[whole])
        if offset + length + self.framing.extra > self.file.size:  # a compressed file is decompressed for this
            return None
        return too_long(self.file, offset + self.framing.head, length, max_bytes)

    def missing_bytes(self, n_carried: int) -> int:
        """Return how many bytes of the incomplete frame to read next; its length may be damaged."""
        whole = self.n_whole
        if whole == len(self.frames.starts):
            return 0
        missing = int(self.frames.lengths[whole]) + self.framing.extra - n_carried
        if self.file.is_compressed:
            missing = min(missing, n_carried)  # twice as much each time
        return missing

    def chunk(self, options: ReaderOptions, problem: FormatError | None) -> RecordChunk:
        """Return the records of the whole frames, and the problem behind them as one more record."""
        whole = self.n_whole
        starts, lengths = self.frames.starts[:whole], self.frames.lengths[:whole]
        blobs = Blobs(self.octets, starts + self.framing.head, lengths)
        problems = self.framing.data_problems(blobs, starts + self.base) if options.verify_checksums else {}
        for error in problems.values():
            error.path = self.file.name
        most = self.file.most_record_bytes(options.max_record_bytes)
        for long in np.flatnonzero(lengths > most).tolist():
            offset = self.base + self.framing.head + int(starts[long])
            problems[long] = too_long(self.file, offset, int(lengths[long]), options.max_record_bytes)
        if problem is not None:
            problems[whole] = problem
            zero = np.zeros(1, np.int64)
            blobs = Blobs(self.octets, np.concatenate([blobs.starts, zero]), np.concatenate([lengths, zero]))
        return RecordChunk(blobs, problems, self.base)
