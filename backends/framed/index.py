"""Indexes kept beside data: our own, which are trusted where they were made of this very file, and hints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing, Positions, words
from dataformats.backends.framed.kept import FrameIndex
from dataformats.backends.framed.scan import Frames
from dataformats.backends.framed.told import error_of, told
from dataformats.backends.framed.window import headers_are_sound
from dataformats.batch import Blobs
from dataformats.indexing.index_cache import Index, IndexCache
from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.blob_read import read_blobs
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["FrameIndexes", "Hint"]

_LOG = logging.getLogger("dataformats")
_BATCH = 4096  # headers read at once; where records are short, what lies between them is read as well

Hint = tuple[str, NDArray[np.int64]]
"""Where an index came from, and the lengths of all records as it has them."""


def _none(file: StoredFile) -> Iterator[Hint]:
    return iter(())


@dataclass(frozen=True, slots=True)
class FrameIndexes:
    """The indexes of the files of one format.

    Attributes:
        framing: What a frame is.
        foreign: What the indexes of other programs beside a file say.
    """

    framing: Framing
    foreign: Callable[[StoredFile], Iterator[Hint]] = _none

    def exact(self, file: StoredFile, shelf: IndexCache) -> FrameIndex | None:
        """Return the index that was made of this very file, or `None`.

        Size and time tell that it was; a file that tells no time has only hints.
        """
        lying = _lying(file)
        index = shelf.load(lying, self.framing.name) if len(lying.identity) > 1 else None
        if index is None or not index.exact:
            return None
        try:
            return self._fitting(index, file)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            _LOG.warning("ignored the index of %s in %s: %s", file.name, shelf.where, error)
            return None

    def hinted(self, file: StoredFile, shelf: IndexCache) -> Frames | None:
        """Return the frames of a file from an index that came with it, each looked at in the file; or `None`."""
        if isinstance(file, DecompressedFile) or file.size == 0:
            return None  # to look at each frame is to go through the file
        for name, lengths in self._hints(file, shelf):
            frames = self._proven(file, lengths)
            if frames is not None:
                return frames
            _LOG.warning("ignored the index %s of %s: it does not fit the file", name, file.name)
        return None

    def keep(self, file: StoredFile, shelf: IndexCache, frames: Frames) -> FrameIndex:
        """Keep the frames of a file for the next time; return their index, which holds none of them."""
        facts = {
            "compression": _compression(file),
            "size": file.size,
            "rest": told(frames.rest),
            "damage": told(file.damage) if isinstance(file, DecompressedFile) else None,
        }
        columns: dict[str, NDArray[Any]] = {"length": frames.lengths}
        if frames.stored is not None:
            columns["crc"] = frames.stored
        index = shelf.save(_lying(file), self.framing.name, columns, facts)
        return FrameIndex(self.framing, index, frames.rest)

    def _fitting(self, index: Index, file: StoredFile) -> FrameIndex:
        """Return the index if it fits the file as far as its header tells; blocks are looked at when they are read."""
        names = tuple(column.name for column in index.layout.columns)
        if names != (("length", "crc") if self.framing.tail else ("length",)):
            raise ValueError(f"its columns are not those of {self.framing.title}")
        facts = index.facts
        if facts["compression"] != _compression(file):
            raise ValueError(f"it was made for compression {facts['compression']!r}, not {_compression(file)!r}")
        size = int(facts["size"]) if isinstance(file, DecompressedFile) else file.size
        rest = error_of(facts["rest"], file.name)
        end = index.total + self.framing.extra * len(index)
        if not 0 <= index.total <= end <= size or (rest is None and end != size):
            raise ValueError("its records do not fill the file")
        if isinstance(file, DecompressedFile):
            file.known_size(size, error_of(facts["damage"], file.name))
        return FrameIndex(self.framing, index, rest)

    def _hints(self, file: StoredFile, shelf: IndexCache) -> Iterator[Hint]:
        """Yield the lengths of the records as each index says that is there and can be read."""
        for place in (shelf,) if shelf.where == "beside" else (shelf, IndexCache("beside")):
            index = place.load(file, self.framing.name)
            if index is None or index.facts.get("rest") is not None:
                continue
            try:
                lengths = index.rows(0, len(index)).columns["length"]
            except (ValueError, LookupError, MemoryError) as error:
                _LOG.warning("ignored the index of %s in %s: %s", file.name, place.where, error)
                continue
            yield place.where, lengths.astype(np.int64)
        yield from self.foreign(file)

    def _tiled(self, lengths: Positions, size: int) -> int | None:
        """Return where frames of these lengths end, or `None` where they do not lie in `size` bytes."""
        if not len(lengths):
            return 0
        if lengths.dtype != np.dtype(np.int64) or lengths.min() < 0 or lengths.max() > size:
            return None
        ends = np.cumsum(lengths + self.framing.extra)
        if ends.min() < 0 or ends.max() > size:  # a sum past 2**63 turns negative before it turns small
            return None
        return int(ends[-1])

    def _proven(self, file: StoredFile, lengths: Positions) -> Frames | None:
        """Return the frames of these lengths if they fill the file and each one's header says the same."""
        if self._tiled(lengths, file.size) != file.size:
            return None
        sizes = lengths + self.framing.extra
        starts = np.cumsum(sizes) - sizes
        stored = np.empty(len(lengths), np.uint32) if self.framing.tail else None
        for first in range(0, len(lengths), _BATCH):
            part = slice(first, first + _BATCH)
            head, foot = self._around(file, starts[part], lengths[part])
            if not headers_are_sound(self.framing, head.buffer, head.starts, lengths[part]):
                return None
            if stored is not None:
                stored[part] = words(foot.buffer, foot.starts, "<u4")
        return Frames(self.framing, lengths, stored)

    def _around(self, file: StoredFile, starts: Positions, lengths: Positions) -> tuple[Blobs, Blobs]:
        """Return the headers and the footers of frames."""
        zero, framing = np.zeros(len(starts), np.int32), self.framing
        heads = Extents(zero, starts, np.full(len(starts), framing.head, np.int64))
        feet = Extents(zero, starts + framing.head + lengths, np.full(len(starts), framing.tail, np.int64))
        head, foot = read_blobs([file], [heads, feet], max_bytes=framing.extra)
        return head.blobs, foot.blobs


def _lying(file: StoredFile) -> StoredFile:
    """Return the file as it lies on the disk."""
    return file.compressed if isinstance(file, DecompressedFile) else file


def _compression(file: StoredFile) -> str:
    return file.compression if isinstance(file, DecompressedFile) else "none"
