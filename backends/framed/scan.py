"""Finds the frames of a whole file, from header to header, without reading the data of large records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing, words
from dataformats.backends.framed.walking import cut_short, no_frame, walk
from dataformats.errors import FormatError, TruncatedError
from dataformats.indexed import FileIndex
from dataformats.storage.files import StoredFile
from dataformats.storage.inflate import Inflated

__all__ = ["Frames", "damage_at", "read_window", "scan"]

_WINDOW = 2**20
_SKIP_LOCAL = 64 * 1024  # records larger than this on the average: reading only their headers is faster
_SKIP_REMOTE = 8 * 2**20
_HEADERS_ONLY = 4096


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a file, which lie back to back from its first byte on.

    Attributes:
        framing: What a frame is.
        lengths: int64[n], bytes of data of each.
        stored: uint32[n], the checksum of the data as it stands in each footer; `None` where there are no footers.
        rest: Why what follows the last frame cannot be read; `None` where nothing follows.
    """

    framing: Framing
    lengths: NDArray[np.int64]
    stored: NDArray[np.uint32] | None
    rest: FormatError | None = None

    @property
    def ends(self) -> NDArray[np.int64]:
        """int64[n], where each frame ends."""
        return np.cumsum(self.lengths + self.framing.extra)

    def index(self) -> FileIndex:
        """Return the index of the file; the rest is one more record."""
        ends, stored = self.ends, self.stored
        offset = ends - self.lengths - self.framing.tail
        if self.rest is None:
            return FileIndex(offset, self.lengths, stored)
        rest_offset = int(ends[-1]) if len(ends) else 0
        return FileIndex(
            np.append(offset, np.int64(rest_offset)),
            np.append(self.lengths, np.int64(0)),
            None if stored is None else np.append(stored, np.uint32(0)),
            {len(self.lengths): self.rest},
        )


def scan(framing: Framing, file: StoredFile, progress: Callable[[int], None] | None = None) -> Frames:
    """Return the frames of a file; headers are checked, data are not.

    Args:
        framing: What a frame is.
        file: The file, decompressed.
        progress: Called with the bytes gone through since the last call.
    """
    lengths, stored = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
    at, lead, want = 0, 0, _WINDOW
    rest: FormatError | None
    while True:
        # A window begins with the footer of the frame before it, which need not lie in the last window; or at
        # least with that frame's last byte, so that it is known to be there.
        window = read_window(file, at - lead, want)
        if len(window) < lead:
            rest = _last_is_cut(framing, file, lengths, at)
            break
        found = walk(framing, window, lead, at - lead, file.name)
        lengths.append(found.lengths)
        if framing.tail:
            stored.append(_footers(framing, window, found.starts, found.stop if found.problem else None, lead))
        before, at = at, at - lead + found.stop
        if progress is not None:
            progress(min(at, before + len(window)) - before)
        if found.problem or not len(found.starts):
            left = len(window) - lead
            rest = found.problem or (no_frame(framing, at, left, file.name) if left else None)
            break
        lead, want = max(framing.tail, 1), _window_bytes(framing, file, (at - before) // len(found.starts))
    all_lengths = np.concatenate(lengths)
    end = int((all_lengths + framing.extra).sum())
    all_stored = np.concatenate(stored) if framing.tail else None
    return Frames(framing, all_lengths, all_stored, damage_at(file, end, rest))


def read_window(file: StoredFile, offset: int, most: int) -> NDArray[np.uint8]:
    """Return up to `most` bytes from `offset` on, uint8[n]; fewer only at the end of the file."""
    if not isinstance(file, Inflated):  # the size of decompressed data is not known beforehand
        most = max(0, min(most, file.size - offset))
    window = np.empty(most, np.uint8)
    return window[: file.read_into(offset, window.data)] if most else window


def damage_at(file: StoredFile, offset: int, rest: FormatError | None) -> FormatError | None:
    """Return why nothing can be read from `offset` on; damage of the compression goes before a mere end."""
    if not isinstance(file, Inflated) or file.size < 0 or file.damage is None:
        return rest
    if rest is not None and not isinstance(rest, TruncatedError):
        return rest
    damage = file.damage
    found = f"{damage.found}; {file.size - offset} of them behind the last whole record"
    return type(damage)(damage.what, path=file.name, offset_bytes=offset, found=found, remedy=damage.remedy)


def _last_is_cut(framing: Framing, file: StoredFile, lengths: list[NDArray[np.int64]], end: int) -> FormatError:
    """Take the last frame back, which ends behind the end of the file; return its error."""
    length = int(lengths[-1][-1])
    lengths[-1] = lengths[-1][:-1]
    return cut_short(framing, end - length - framing.extra, length, file.size, file.name)


def _footers(
    framing: Framing, window: NDArray[np.uint8], starts: NDArray[np.int64], stop: int | None, lead: int
) -> NDArray[np.uint32]:
    """Return the footers in front of the frames that begin in the window, and of where these stop."""
    begins = starts if stop is None else np.append(starts, np.int64(stop))
    if not len(begins):
        begins = np.array([lead], np.int64)
    return words(window, begins[begins >= framing.tail] - framing.tail, "<u4").astype(np.uint32)


def _window_bytes(framing: Framing, file: StoredFile, mean_frame: int) -> int:
    if isinstance(file, Inflated):
        return _WINDOW
    skip = _SKIP_REMOTE if file.local is None else _SKIP_LOCAL
    return _HEADERS_ONLY if mean_frame > skip + framing.head else _WINDOW
