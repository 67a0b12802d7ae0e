"""Goes through a file from its beginning, without an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dataformats.backends.framed.framing import Framing, Octets
from dataformats.backends.framed.scan import damage_at
from dataformats.backends.framed.scanner import read_window
from dataformats.backends.framed.window import Walk, cut_short, no_frame, walk
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import OpenOptions, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.blob_read import too_long
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["iter_chunks"]

_WINDOW = 2 * 2**20
_FIRST_WINDOW = 2**17  # whoever wants a few records does not wait for many


def iter_chunks(framing: Framing, file: StoredFile, options: OpenOptions) -> Iterator[RecordChunk]:
    """Yield the records of a file in order; the blobs are views of the windows that were read.

    A window holds whole frames and the beginning of one more, which is copied to the front of the next one.
    Room for a frame larger than a window is made only where the size of the file says that it is there, and never
    for more than `max_record_bytes`: a longer record is a problem, and the file goes on behind it.
    """
    base, carry, want, usual = 0, np.zeros(0, np.uint8), _FIRST_WINDOW, _FIRST_WINDOW
    while True:
        octets, ended = _extended(file, base, carry, want)
        window = _Window(framing, file, octets, base, ended, walk(framing, octets, 0, base, file.name))
        problem = window.problem()
        skipped = None if problem else window.too_long(options.max_record_bytes)
        stretch = window.stretch(options, problem or skipped)
        if len(stretch.blobs):
            yield stretch
        if problem or (ended and not skipped):
            return
        carry, base = octets[window.stop :], base + window.stop
        if skipped:
            carry, base = carry[:0], base + framing.extra + int(window.found.lengths[window.whole])
        usual = min(2 * usual, _WINDOW)
        want = max(usual, window.missing_bytes(len(carry)))


def _extended(file: StoredFile, base: int, carry: Octets, want: int) -> tuple[Octets, bool]:
    """Return a new window, `carry` and what follows it in the file; and True where the file ends with it."""
    offset = base + len(carry)
    if not isinstance(file, DecompressedFile):
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
    return window, n < want if isinstance(file, DecompressedFile) else offset + n >= file.size


@dataclass(frozen=True, slots=True)
class _Window:
    """A part of a file, the frames that begin in it, and whether the file ends with it."""

    framing: Framing
    file: StoredFile
    octets: Octets
    base: int
    ended: bool
    found: Walk

    @property
    def whole(self) -> int:
        """The number of frames that lie in it with all their bytes."""
        return int(np.count_nonzero(self.found.ends <= len(self.octets)))

    @property
    def stop(self) -> int:
        """Where the last of these ends."""
        return int(self.found.ends[self.whole - 1]) if self.whole else 0

    def problem(self) -> FormatError | None:
        """Return why the file cannot be read on, where it cannot."""
        return self.found.problem or self._rest()

    def _rest(self) -> FormatError | None:
        whole, offset, size, path = self.whole, self.base + self.stop, self.file.size, self.file.name
        rest: FormatError | None = None
        if whole < len(self.found.starts):
            length = int(self.found.lengths[whole])
            announced = offset + length + self.framing.extra
            if self.ended or (not isinstance(self.file, DecompressedFile) and announced > size):
                rest = cut_short(self.framing, offset, length, size, path)
        elif self.ended and self.stop < len(self.octets):
            rest = no_frame(self.framing, offset, len(self.octets) - self.stop, path)
        return damage_at(self.file, offset, rest) if self.ended else rest

    def too_long(self, max_bytes: int) -> FormatError | None:
        """Return why the frame that is not whole is passed over, where it is."""
        whole = self.whole
        if whole == len(self.found.starts) or self.found.lengths[whole] <= max_bytes:
            return None
        offset, length = self.base + self.stop, int(self.found.lengths[whole])
        if offset + length + self.framing.extra > self.file.size:  # a compressed one is measured for this
            return None
        return too_long(length, max_bytes, path=self.file.name, offset_bytes=offset + self.framing.head)

    def missing_bytes(self, n_carried: int) -> int:
        """Return how many bytes the frame that is not whole lacks, as far as they may be believed."""
        whole = self.whole
        if whole == len(self.found.starts):
            return 0
        missing = int(self.found.lengths[whole]) + self.framing.extra - n_carried
        if isinstance(self.file, DecompressedFile):
            missing = min(missing, n_carried)  # twice as much each time
        return missing

    def stretch(self, options: OpenOptions, problem: FormatError | None) -> RecordChunk:
        """Return the whole frames, and the problem behind them as one more record."""
        whole = self.whole
        starts, lengths = self.found.starts[:whole], self.found.lengths[:whole]
        blobs = Blobs(self.octets, starts + self.framing.head, lengths)
        problems = self.framing.data_problems(blobs, starts + self.base) if options.verify_checksums else {}
        for error in problems.values():
            error.path = self.file.name
        for long in np.flatnonzero(lengths > options.max_record_bytes).tolist():
            offset = self.base + self.framing.head + int(starts[long])
            problems[long] = too_long(
                int(lengths[long]), options.max_record_bytes, path=self.file.name, offset_bytes=offset
            )
        if problem is not None:
            problems[whole] = problem
            zero = np.zeros(1, np.int64)
            blobs = Blobs(self.octets, np.concatenate([blobs.starts, zero]), np.concatenate([lengths, zero]))
        return RecordChunk(blobs, problems)
