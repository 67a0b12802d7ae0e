"""The index of a file of frames, how the index cache stores it, and index files of other programs as hints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.file_scan import Frames
from dataformats.backends.framed.frame_scanner import FrameScanner
from dataformats.backends.framed.framing import Framing, Positions, gather_integers
from dataformats.backends.framed.window_scan import headers_are_sound
from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.indexing.file_index import ArrayIndex, PackedRows
from dataformats.indexing.index_cache import Index, IndexCache
from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import hold_blocks
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.reference_read import read_blobs

_LOG = logging.getLogger("dataformats")
_BATCH = 4096  # headers read at once; the data between the headers of short records is read as well
_PART = 16 * _BATCH  # rows of a hint that are read at once
_UNUSABLE = (ValueError, LookupError, ArithmeticError, MemoryError)
_MAX_EXPANSION = 1032  # bytes that DEFLATE can make of one
_ERRORS = {kind.__name__: kind for kind in (FormatError, TruncatedError, ChecksumError)}
_FACTS = ("what", "offset_bytes", "remedy")

Hint = tuple[str, Iterator[NDArray[np.int64]]]
"""The name of an index, and the lengths of the records according to it, some thousands at a time.

Each part is compared with the file before the next one is requested, so that a false hint takes no memory. To iterate
may raise the errors of bad data: `ValueError`, `LookupError`, `ArithmeticError`, `MemoryError`.
"""


class Tiling(Protocol):
    """How blobs lie in a file: `head` bytes before the first one, `extra` bytes between two."""

    @property
    def head(self) -> int: ...

    @property
    def extra(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames, or lines, of one file, back to back. Offsets are sums of the stored lengths.

    Attributes:
        framing: The frames of the format, or how far the blobs of the file lie apart.
        index: Their lengths, and their checksums if frames have checksums.
        rest: Why the bytes behind the last frame cannot be read; they count as one more record. `None` if no bytes
            follow.
    """

    framing: Tiling
    index: Index
    rest: FormatError | None = None

    def __len__(self) -> int:
        return len(self.index) + (self.rest is not None)

    @property
    def digest(self) -> str:
        """A digest of lengths and stored checksums."""
        return self.index.digest

    @property
    def is_compared(self) -> bool:
        """True if the index was compared with the file, and kept because the file is damaged."""
        return bool(self.index.metadata.get("is_compared"))

    def frames(self, framing: Framing) -> Frames:
        """Return all frames, in memory.

        Raises:
            BrokenBlockError: The index is damaged and has to be built again.
        """
        columns = self.index.rows(0, len(self.index)).columns
        return Frames(framing, columns["length"].astype(np.int64), columns.get("crc"), self.rest)

    def packed(self) -> PackedRows:
        """Return where its rows lie, for the kernels."""
        index, framing = self.index, self.framing
        length, *checksums = index.layout.columns
        crc = (checksums[0].width, checksums[0].constant or 0) if checksums else (0, 0)
        facts = (index.seal, framing.head, framing.extra, length.width, length.constant or 0, *crc)

        def hold(handle: Any, file: int, source: bytes, is_path: bool, base: int) -> bool:
            return hold_blocks(handle, file, len(index), source, is_path, (base, *facts))

        n_bytes = index.layout.n_bytes
        return PackedRows(n_bytes, index.path, index.base, partial(index.read, 0, n_bytes), hold)

    def part(self, first: int, stop: int) -> ArrayIndex:
        """Return where the records `[first, stop)` lie.

        Raises:
            BrokenBlockError: The index is damaged and has to be built again.
        """
        n, extra = len(self.index), self.framing.extra
        rows = self.index.rows(min(first, n), min(stop, n))
        length = rows.columns["length"].astype(np.int64)
        crc = rows.columns.get("crc")
        stored = None if crc is None else crc.astype(np.uint32)
        offset = np.cumsum(length + extra) + (rows.before + extra * min(first, n)) - length - extra + self.framing.head
        if stop <= n or self.rest is None:
            return ArrayIndex(offset, length, stored)
        return ArrayIndex(
            np.append(offset, np.int64(self.index.total + extra * n)),
            np.append(length, np.int64(0)),
            None if stored is None else np.append(stored, np.uint32(0)),
            {n - first: self.rest},
        )


def _no_hints(_file: StoredFile) -> Iterator[Hint]:
    return iter(())


@dataclass(frozen=True, slots=True)
class FrameIndexStore:
    """Loads and saves the indexes of the files of one format.

    Attributes:
        framing: The frames of the format.
        foreign: Yields the hints of index files that other programs put beside a file.
    """

    framing: Framing
    foreign: Callable[[StoredFile], Iterator[Hint]] = _no_hints

    def load_exact(self, file: StoredFile, cache: IndexCache) -> FrameIndex | None:
        """Return the index of this version of the file, from the cache or beside the data, or `None`.

        Size and modification time identify the version. Other indexes are hints: see `load_hinted`. If the file is not
        local, one of them counts if the frame in the middle is where it says. To read every header would be a request
        for each record, and each frame is checked when its record is read.
        """
        stored = file.stored
        for place in dict.fromkeys((cache, cache.beside)):
            index = place.load(stored, self.framing.name)
            is_hint = index is not None and not (index.exact and len(stored.identity) > 1)
            if index is None or (is_hint and (stored.local is not None or file.is_compressed)):
                continue
            try:
                found = self._checked(index, file)
                if is_hint:
                    self._check_middle(found, file)
                return found
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                _LOG.warning("ignored the index %s of %s: %s", place.path(stored) or "beside it", file.name, error)
        return None

    def _check_middle(self, index: FrameIndex, file: StoredFile) -> None:
        """Raise `ValueError` unless a frame begins in the middle of the file, behind the end of another, as indexed."""
        row = len(index) // 2
        if index.rest is not None:
            raise ValueError("it is of another version of the file")
        if not len(index):
            return
        rows, framing = index.part(max(0, row - 1), row + 1), self.framing
        tail = framing.tail if row else 0
        begin = int(rows.offset[-1]) - framing.head - tail
        found = np.frombuffer(file.pread(begin, tail + framing.head), np.uint8)
        is_sound = len(found) == tail + framing.head  # the index may reach past the end of the file
        is_sound = is_sound and headers_are_sound(framing, found, np.array([tail]), rows.length[-1:])
        if not is_sound or (tail and rows.stored is not None and found[:tail].view("<u4")[0] != rows.stored[0]):
            raise ValueError(f"it does not fit the file: its record {row} is not at byte {begin + tail}")

    def load_hinted(self, file: StoredFile, cache: IndexCache) -> Frames | None:
        """Return the frames of a file from an index of unknown age, after reading every header; or `None`."""
        if file.is_compressed or file.size == 0:
            return None  # reading every header would decompress the whole file
        for name, parts in self._hints(file, cache):
            try:
                return self._verified(file, parts)
            except _UNUSABLE as error:
                _LOG.warning("ignored the index %s of %s: %s", name, file.name, error)
        return None

    def save(self, file: StoredFile, cache: IndexCache, frames: Frames, *, is_compared: bool = False) -> FrameIndex:
        """Save the frames of a file in the index cache; return their index, which reads them from there."""
        metadata: dict[str, Any] = {
            "compression": file.compression,
            "size": file.size,
            "rest": error_to_json(frames.rest),
            "damage": error_to_json(file.damage),
        }
        if is_compared:
            metadata["is_compared"] = True
        columns: dict[str, NDArray[Any]] = {"length": frames.lengths}
        if frames.stored is not None:
            columns["crc"] = frames.stored
        index = cache.save(file.stored, self.framing.name, columns, metadata)
        return FrameIndex(self.framing, index, frames.rest)

    def _checked(self, index: Index, file: StoredFile) -> FrameIndex:
        """Return the index if its header fits the file; its blocks are checked when they are read."""
        names = tuple(column.name for column in index.layout.columns)
        expected = ("length", "crc") if self.framing.tail else ("length",)
        if names != expected:
            raise ValueError(f"expected the columns {', '.join(expected)}, found {', '.join(names)}")
        metadata = index.metadata
        if metadata["compression"] != file.compression:
            raise ValueError(f"expected compression {file.compression!r}, found {metadata['compression']!r}")
        size = int(metadata["size"]) if file.is_compressed else file.size
        if size > _MAX_EXPANSION * file.stored_size:
            raise ValueError(f"expected at most {_MAX_EXPANSION * file.stored_size} bytes, found {size}")
        rest = error_from_json(metadata["rest"], file.name)
        end = index.total + self.framing.extra * len(index)
        if not 0 <= index.total <= end <= size or (rest is None and end != size):
            raise ValueError(f"its records do not fill the file: expected {size} bytes, found {end}")
        if rest is not None and not file.is_compressed and FrameScanner(self.framing, file, end).extend(end + 1):
            raise ValueError(f"the file can be read on from byte {end}")
        if isinstance(file, DecompressedFile):
            file.known_size(size, error_from_json(metadata["damage"], file.name), "")
        return FrameIndex(self.framing, index, rest)

    def _hints(self, file: StoredFile, cache: IndexCache) -> Iterator[Hint]:
        """Yield the hints of all readable indexes; if the file is not local, only the ones of other programs."""
        for place in () if file.local is None else dict.fromkeys((cache, cache.beside)):
            index = place.load(file, self.framing.name)
            if index is not None and index.metadata.get("rest") is None:
                yield place.where, _lengths(index)
        yield from self.foreign(file)

    def _verified(self, file: StoredFile, parts: Iterator[Positions]) -> Frames:
        """Return the frames of these lengths, which must fill the file, each with a header of the same length.

        Raises:
            ValueError: They do not.
        """
        end, kept, footers = 0, [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
        for lengths in _batches(parts):
            ends = end + self._ends(lengths, file.size - end)
            head, foot = self._headers_and_footers(file, ends - lengths - self.framing.extra, lengths)
            if not headers_are_sound(self.framing, head.buffer, head.starts, lengths):
                raise ValueError("it does not fit the file: a header is not where it says")
            if self.framing.tail:
                footers.append(gather_integers(foot.buffer, foot.starts, "<u4"))
            kept.append(lengths)
            end = int(ends[-1])
        if end != file.size:
            raise ValueError(f"it does not fit the file: expected {file.size} bytes, found {end}")
        return Frames(self.framing, np.concatenate(kept), np.concatenate(footers) if self.framing.tail else None)

    def _ends(self, lengths: Positions, size: int) -> Positions:
        """Return int64[n], n > 0: where frames of these lengths, back to back from 0 on, end.

        Raises:
            ValueError: They do not fit into `size` bytes.
        """
        if 0 <= lengths.min() <= lengths.max() <= size:
            ends: Positions = np.cumsum(lengths + self.framing.extra)
            if ends.min() >= 0 and ends[-1] <= size:  # a sum past 2**63 turns negative before it turns small
                return ends
        raise ValueError(f"it does not fit the file: more than {size} bytes are left")

    def _headers_and_footers(self, file: StoredFile, starts: Positions, lengths: Positions) -> tuple[Blobs, Blobs]:
        zero, framing = np.zeros(len(starts), np.int32), self.framing
        heads = Extents(zero, starts, np.full(len(starts), framing.head, np.int64))
        feet = Extents(zero, starts + framing.head + lengths, np.full(len(starts), framing.tail, np.int64))
        head, foot = read_blobs([file], [heads, feet], max_bytes=framing.extra)
        return head.blobs, foot.blobs


def _lengths(index: Index) -> Iterator[Positions]:
    """Yield the lengths of an index as a hint."""
    for first in range(0, len(index), _PART):
        yield index.rows(first, min(first + _PART, len(index))).columns["length"].astype(np.int64)


def _batches(parts: Iterator[Positions]) -> Iterator[Positions]:
    for part in parts:
        for first in range(0, len(part), _BATCH):
            yield part[first : first + _BATCH]


def error_to_json(error: FormatError | None) -> dict[str, Any] | None:
    """Return an error as JSON, without its path: the file may have been moved when the index is loaded."""
    if error is None:
        return None
    facts = {name: getattr(error, name) for name in _FACTS}
    if isinstance(error, ChecksumError):
        facts |= {"stored": error.stored, "computed": error.computed}
    else:
        facts |= {"expected": _json_value(error.expected), "found": _json_value(error.found)}
    return {"type": type(error).__name__, **{name: fact for name, fact in facts.items() if fact is not None}}


def error_from_json(stored: Any, path: str) -> FormatError | None:
    """Return the error that `error_to_json` stored, with the present path of the file.

    Raises:
        TypeError, LookupError: It stored something else.
    """
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise TypeError(f"expected the facts of an error, found {type(stored).__name__}")
    facts = {name: fact for name, fact in stored.items() if name not in ("type", "what")}
    return _ERRORS[stored["type"]](str(stored["what"]), path=path, **facts)


def _json_value(fact: object) -> object:
    return fact if isinstance(fact, (str, int)) or fact is None else repr(fact)
