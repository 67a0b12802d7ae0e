"""Finds the frames of a whole file, and why the rest of it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.frame_scanner import FrameScanner
from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.parallel_scan import extend_in_pieces
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import StoredFile

_FIRST_SCAN = 2**20  # enough to estimate the size of records


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a file, back to back from its first byte.

    Attributes:
        framing: The frames of the format.
        lengths: int64[n], bytes of data of each.
        stored: uint32[n], the checksum of the data in each footer; `None` if the format has no footers.
        rest: Why the bytes behind the last frame cannot be read; `None` if no bytes follow.
    """

    framing: Framing
    lengths: NDArray[np.int64]
    stored: NDArray[np.uint32] | None
    rest: FormatError | None = None

    @property
    def ends(self) -> NDArray[np.int64]:
        """int64[n], where each frame ends."""
        return np.cumsum(self.lengths + self.framing.extra)


def scan(framing: Framing, file: StoredFile, progress: Callable[[int], None] | None = None) -> Frames:
    """Return the frames of a file; checks headers, not data.

    A large file is scanned in several places at once if the framing allows it; the result is the same.

    Args:
        framing: The frames of the format.
        file: The file, decompressed.
        progress: Called by this thread with the bytes scanned since the last call.
    """
    chain = FrameScanner(framing, file, progress=progress)
    if chain.extend(_FIRST_SCAN) and extend_in_pieces(chain, framing, file):
        chain.extend()
    stored = chain.stored if framing.tail else None
    return Frames(framing, chain.lengths, stored, damage_at(file, chain.at, chain.rest))


def damage_at(file: StoredFile, offset: int, rest: FormatError | None) -> FormatError | None:
    """Return why nothing can be read from `offset` on; damage of the compression takes precedence over a mere end."""
    if not file.is_compressed or file.size < 0 or file.damage is None:  # reading the size finds the damage
        return rest
    if rest is not None and not isinstance(rest, TruncatedError):
        return rest
    damage = file.damage
    found = f"{damage.found}; {file.size - offset} of them behind the last whole record"
    return type(damage)(damage.what, path=file.name, offset_bytes=offset, found=found, remedy=damage.remedy)
