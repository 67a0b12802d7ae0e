"""The index of a file of records without frames, such as lines, and how the index cache stores it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.frame_index import FrameIndex, error_from_json, error_to_json
from dataformats.backends.lines.line_scan import Lines, find_lines
from dataformats.errors import FormatError
from dataformats.indexing.index_cache import Index, IndexCache
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.seekable_gzip import DecompressedFile


@dataclass(frozen=True, slots=True)
class LineTiling:
    """How the records of a file lie.

    Attributes:
        head: Bytes before the first record: a byte order mark, blank lines.
        extra: Bytes of the end of each: of a line, or a comma.
    """

    head: int = 0
    extra: int = 1


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The records that a scan of a file found.

    Attributes:
        tiling: How they lie.
        lengths: int64[n], the bytes of each.
        lacking: The bytes that the end of the last one lacks; negative if others follow it, which belong to no record.
        rest: Why the bytes behind them cannot be read: one more record. `None` if they can.
        metadata: More metadata of the index.
    """

    tiling: LineTiling
    lengths: NDArray[np.int64]
    lacking: int = 0
    rest: FormatError | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Where the last record ends."""
        return self.tiling.head + int(self.lengths.sum()) + self.tiling.extra * len(self.lengths)


class RecordIndexStore(ABC):
    """Builds, loads and saves the indexes of the files of one format.

    Attributes:
        name: The format, and the kind of its indexes.
    """

    name: str

    @property
    def choice(self) -> str | None:
        """How records are chosen, if several kinds of values can be: an index lists the choices that it holds for."""
        return None

    @abstractmethod
    def find(self, file: StoredFile, progress: Callable[[int], None]) -> FoundRecords:
        """Scan a file."""

    def build(self, file: StoredFile, cache: IndexCache, progress: Callable[[int], None]) -> FrameIndex:
        """Return the index of a file after a scan, and save it."""
        found = self.find(file, progress)
        if file.damage is not None and found.end > file.size:  # bytes that a wrong checksum behind them made doubtful
            found = self.find(file, progress)
        metadata: dict[str, Any] = {
            "compression": file.compression,
            "size": file.size,
            "rest": error_to_json(found.rest),
            "damage": error_to_json(file.damage),
            "checksums": file.checksums if isinstance(file, DecompressedFile) else None,
            "head": found.tiling.head,
            "extra": found.tiling.extra,
            "open": found.lacking,
            **found.metadata,
        }
        return self._checked(cache.save(file.stored, self.name, {"length": found.lengths}, metadata), file)

    def load_exact(self, file: StoredFile, cache: IndexCache) -> FrameIndex | None:
        """Return the index of this version of the file, from the cache or beside the data, or `None`."""
        for place in dict.fromkeys((cache, cache.beside)):
            index = place.load(file.stored, self.name)
            if index is None or not (index.exact and len(file.stored.identity) > 1):
                continue
            try:
                return self._checked(index, file)
            except (ValueError, KeyError, TypeError, OverflowError):
                continue
        return None

    def _checked(self, index: Index, file: StoredFile) -> FrameIndex:
        """Return the index if its header fits the file; its blocks are checked when they are read."""
        metadata, names = index.metadata, [column.name for column in index.layout.columns]
        if names != ["length"] or metadata["compression"] != file.compression:
            raise ValueError("it is of another kind")
        if self.choice not in metadata.get("choices", (None,)):
            raise ValueError("it is of other records")
        tiling = LineTiling(int(metadata["head"]), int(metadata["extra"]))
        rest = error_from_json(metadata["rest"], file.name)
        size = int(metadata["size"]) if file.is_compressed else file.size
        end = tiling.head + index.total + tiling.extra * len(index) - int(metadata["open"])
        if not 0 <= tiling.head <= end <= size or (rest is None and end != size):
            raise ValueError(f"its records do not fill the file: expected {size} bytes, found {end}")
        if isinstance(file, DecompressedFile):
            file.known_size(size, error_from_json(metadata["damage"], file.name), metadata["checksums"])
        return FrameIndex(tiling, index, rest)


@dataclass(frozen=True, slots=True)
class LineIndexStore(RecordIndexStore):
    """Indexes of files of lines.

    Attributes:
        name: The format, and the kind of its indexes.
        skips_blank: True if blank lines are no records: then they belong to the record before them, as its last bytes.
            So does the CR of CR LF, which JSON counts as space.
    """

    name: str
    skips_blank: bool

    def find(self, file: StoredFile, progress: Callable[[int], None]) -> FoundRecords:
        lines = find_lines(file, progress)
        damage = file.damage if file.is_compressed and file.size >= 0 else None  # reading the size finds the damage
        if damage is not None and lines.is_open:
            lines = Lines(lines.begin, lines.lengths[:-1], False, lines.is_crlf)
        tiling, lengths = self._records(lines)
        found = FoundRecords(tiling, lengths, int(lines.is_open) * tiling.extra if len(lengths) else 0)
        return replace(found, rest=unreadable(damage, found.end, file, "line"))

    def _records(self, lines: Lines) -> tuple[LineTiling, NDArray[np.int64]]:
        """Return where the records lie, and the length of each."""
        lengths = lines.lengths
        if not self.skips_blank:
            extra = 2 if lines.is_crlf else 1
            lengths = np.abs(lengths) - extra
            if lines.is_open:
                lengths[-1] += extra - 1
            return LineTiling(lines.begin, extra), lengths
        firsts = np.flatnonzero(lengths > 0)
        if len(firsts) == len(lengths):
            return LineTiling(lines.begin), lengths - 1
        lengths = np.abs(lengths)
        if not len(firsts):
            return LineTiling(lines.begin + int(lengths.sum()) - lines.is_open), np.zeros(0, np.int64)
        return LineTiling(lines.begin + int(lengths[: firsts[0]].sum())), np.add.reduceat(lengths, firsts) - 1


def unreadable(damage: FormatError | None, end: int, file: StoredFile, kind: str) -> FormatError | None:
    """Return the problem of the record behind the last whole one, if the compressed data are damaged.

    Args:
        damage: Their damage.
        end: Where the last whole record ends.
        file: The file.
        kind: A record, in a word.
    """
    if damage is None:
        return None
    found = f"{damage.found}; {file.size - end} of them behind the last whole {kind}"
    return type(damage)(damage.what, path=file.name, offset_bytes=end, found=found, remedy=damage.remedy)
