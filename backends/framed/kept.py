"""The index of a file of frames as it is kept: where records lie is worked out from the lengths of a few of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dataformats.backends.framed.framing import Framing
from dataformats.errors import FormatError
from dataformats.indexing.file_index import FileIndex
from dataformats.indexing.index_cache import Index

__all__ = ["FrameIndex"]


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames of a file, which lie back to back from its first byte on.

    Attributes:
        framing: What a frame is.
        kept: Their lengths, and their checksums where there are any.
        rest: Why what follows the last frame cannot be read, which is one more record; `None` where nothing follows.
    """

    framing: Framing
    kept: Index
    rest: FormatError | None = None

    def __len__(self) -> int:
        return len(self.kept) + (self.rest is not None)

    @property
    def digest(self) -> str:
        """Of lengths and stored checksums."""
        return self.kept.digest

    def part(self, first: int, stop: int) -> FileIndex:
        """Return where the records `[first, stop)` lie.

        Raises:
            BrokenBlockError: The index is damaged, and has to be made again.
        """
        n, extra = len(self.kept), self.framing.extra
        rows = self.kept.rows(min(first, n), min(stop, n))
        length = rows.columns["length"].astype(np.int64)
        crc = rows.columns.get("crc")
        stored = None if crc is None else crc.astype(np.uint32)
        offset = np.cumsum(length + extra) + (rows.before + extra * min(first, n)) - length - self.framing.tail
        if stop <= n or self.rest is None:
            return FileIndex(offset, length, stored)
        return FileIndex(
            np.append(offset, np.int64(self.kept.total + extra * n)),
            np.append(length, np.int64(0)),
            None if stored is None else np.append(stored, np.uint32(0)),
            {n - first: self.rest},
        )
