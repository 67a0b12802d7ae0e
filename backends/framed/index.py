"""Indexes kept beside data: our own, which are trusted where they were made of this very file, and hints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import Framing, Positions, words
from dataformats.backends.framed.scan import Frames
from dataformats.backends.framed.walking import headers_are_sound
from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.storage import sidecar
from dataformats.storage.files import StoredFile
from dataformats.storage.inflate import Inflated
from dataformats.storage.reading import read_blobs

__all__ = ["FrameIndexes", "Hint"]

_LOG = logging.getLogger("dataformats")
_BATCH = 4096  # headers read at once; where records are short, what lies between them is read as well
_ERRORS = {kind.__name__: kind for kind in (FormatError, TruncatedError, ChecksumError)}
_FACTS = ("what", "offset_bytes", "remedy")

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

    def exact_frames(self, file: StoredFile, where: str) -> Frames | None:
        """Return the frames of a file from the index made of it, or `None`.

        Size and time tell that it was; a file that tells no time has only hints.
        """
        lying = _lying(file)
        index = sidecar.load_index(lying, where, self.framing.name)
        if index is None or not index.exact or len(lying.identity) < 2:
            return None
        try:
            return self._parsed(index, file)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            _LOG.warning("ignored the index of %s in %s: %s", file.name, where, error)
            return None

    def hinted_frames(self, file: StoredFile, where: str) -> Frames | None:
        """Return the frames of a file from an index that came with it, each looked at in the file; or `None`."""
        if isinstance(file, Inflated) or file.size == 0:
            return None  # to look at each frame is to go through the file
        for name, lengths in self._hints(file, where):
            frames = self._proven(file, lengths)
            if frames is not None:
                return frames
            _LOG.warning("ignored the index %s of %s: it does not fit the file", name, file.name)
        return None

    def save_frames(self, file: StoredFile, where: str, frames: Frames) -> None:
        """Keep the frames of a file for the next time."""
        facts = {
            "compression": file.compression if isinstance(file, Inflated) else "none",
            "size": file.size,
            "rest": _told(frames.rest),
            "damage": _told(file.damage) if isinstance(file, Inflated) else None,
        }
        columns: dict[str, NDArray[Any]] = {"length": frames.lengths.astype("<i8")}
        if frames.stored is not None:
            columns["crc"] = frames.stored.astype("<u4")
        sidecar.save_index(_lying(file), where, self.framing.name, sidecar.Index(columns, facts))

    def _parsed(self, index: sidecar.Index, file: StoredFile) -> Frames:
        lengths, stored = self._columns(index)
        facts = index.facts
        compression = file.compression if isinstance(file, Inflated) else "none"
        if facts["compression"] != compression:
            raise ValueError(f"it was made for compression {facts['compression']!r}, not {compression!r}")
        size = int(facts["size"]) if isinstance(file, Inflated) else file.size
        rest = _error(facts["rest"], file.name)
        end = self._tiled(lengths, size)
        if end is None or (rest is None and end != size):
            raise ValueError("its records do not fill the file")
        if isinstance(file, Inflated):
            file.known_size(size, _error(facts["damage"], file.name))
        return Frames(self.framing, lengths, stored, rest)

    def _columns(self, index: sidecar.Index) -> tuple[Positions, NDArray[np.uint32] | None]:
        expected = {"length": np.dtype("<i8")} | ({"crc": np.dtype("<u4")} if self.framing.tail else {})
        found = {name: column.dtype for name, column in index.columns.items()}
        if found != expected or len({len(column) for column in index.columns.values()}) > 1:
            raise ValueError(f"its columns are not those of {self.framing.title}")
        lengths, stored = index.columns["length"], index.columns.get("crc")
        return lengths.astype(np.int64, copy=False), None if stored is None else stored.astype(np.uint32, copy=False)

    def _hints(self, file: StoredFile, where: str) -> Iterator[Hint]:
        """Yield the lengths of the records as each index says that is there and can be read."""
        for place in dict.fromkeys((where, "beside")):
            index = sidecar.load_index(file, place, self.framing.name)
            if index is not None and index.facts.get("rest") is None and "length" in index.columns:
                yield place, index.columns["length"]
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
    return file.compressed if isinstance(file, Inflated) else file


def _told(error: FormatError | None) -> dict[str, Any] | None:
    """Return an error as JSON, without the path, which may be another one when it is read."""
    if error is None:
        return None
    facts = {name: getattr(error, name) for name in _FACTS}
    if isinstance(error, ChecksumError):
        facts |= {"stored": error.stored, "computed": error.computed}
    else:
        facts |= {"expected": _plain(error.expected), "found": _plain(error.found)}
    return {"type": type(error).__name__, **{name: fact for name, fact in facts.items() if fact is not None}}


def _plain(fact: object) -> object:
    return fact if isinstance(fact, (str, int)) or fact is None else repr(fact)


def _error(told: Mapping[str, Any] | None, path: str) -> FormatError | None:
    if told is None:
        return None
    facts = {name: fact for name, fact in told.items() if name not in ("type", "what")}
    return _ERRORS[told["type"]](str(told["what"]), path=path, **facts)
