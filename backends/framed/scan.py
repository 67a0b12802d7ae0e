"""Finds the frames of a whole file, and what in it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.parallel_scan import extend_in_pieces
from dataformats.backends.framed.scanner import FrameScanner
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["Frames", "damage_at", "scan"]

_FIRST_LOOK = 2**20  # tells how large records are


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


def scan(framing: Framing, file: StoredFile, progress: Callable[[int], None] | None = None) -> Frames:
    """Return the frames of a file; headers are checked, data are not.

    A large file is gone through in several places at once where the framing allows it; the answer is the same.

    Args:
        framing: What a frame is.
        file: The file, decompressed.
        progress: Called with the bytes gone through since the last call, by this thread.
    """
    chain = FrameScanner(framing, file, progress=progress)
    if chain.extend(_FIRST_LOOK) and extend_in_pieces(chain, framing, file):
        chain.extend()
    stored = chain.stored if framing.tail else None
    return Frames(framing, chain.lengths, stored, damage_at(file, chain.at, chain.rest))


def damage_at(file: StoredFile, offset: int, rest: FormatError | None) -> FormatError | None:
    """Return why nothing can be read from `offset` on; damage of the compression goes before a mere end."""
    if not isinstance(file, DecompressedFile) or file.size < 0 or file.damage is None:
        return rest
    if rest is not None and not isinstance(rest, TruncatedError):
        return rest
    damage = file.damage
    found = f"{damage.found}; {file.size - offset} of them behind the last whole record"
    return type(damage)(damage.what, path=file.name, offset_bytes=offset, found=found, remedy=damage.remedy)
