"""The index of a file of lines: which lines are records, and how the index cache stores them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    """How the lines of a file lie.

    Attributes:
        head: Bytes before the first record: a byte order mark, blank lines.
        extra: Bytes of the end of each line.
    """

    head: int = 0
    extra: int = 1


@dataclass(frozen=True, slots=True)
class LineIndexStore:
    """Builds, loads and saves the indexes of the files of one format.

    Attributes:
        name: The format, and the kind of its indexes.
        skips_blank: True if blank lines are no records: then they belong to the record before them, as its last bytes.
            So does the CR of CR LF, which JSON counts as space.
    """

    name: str
    skips_blank: bool

    def build(self, file: StoredFile, cache: IndexCache, progress: Callable[[int], None]) -> FrameIndex:
        """Return the index of a file after a scan, and save it."""
        lines = find_lines(file, progress)
        damage = file.damage if file.is_compressed and file.size >= 0 else None  # reading the size finds the damage
        if damage is not None and lines.is_open:
            lines = Lines(lines.begin, lines.lengths[:-1], False, lines.is_crlf)
        tiling, lengths = self._records(lines)
        end = tiling.head + int(lengths.sum()) + tiling.extra * len(lengths)
        metadata: dict[str, Any] = {
            "compression": file.compression,
            "size": file.size,
            "rest": error_to_json(_rest(damage, end, file)),
            "damage": error_to_json(damage),
            "head": tiling.head,
            "extra": tiling.extra,
            "open": int(lines.is_open) * tiling.extra if len(lengths) else 0,
        }
        return self._checked(cache.save(file.stored, self.name, {"length": lengths}, metadata), file)

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

    def _checked(self, index: Index, file: StoredFile) -> FrameIndex:
        """Return the index if its header fits the file; its blocks are checked when they are read."""
        metadata, names = index.metadata, [column.name for column in index.layout.columns]
        if names != ["length"] or metadata["compression"] != file.compression:
            raise ValueError("it is of another kind")
        tiling = LineTiling(int(metadata["head"]), int(metadata["extra"]))
        rest = error_from_json(metadata["rest"], file.name)
        size = int(metadata["size"]) if file.is_compressed else file.size
        end = tiling.head + index.total + tiling.extra * len(index) - int(metadata["open"])
        if not 0 <= tiling.head <= end <= size or (rest is None and end != size):
            raise ValueError(f"its records do not fill the file: expected {size} bytes, found {end}")
        if isinstance(file, DecompressedFile):
            file.known_size(size, error_from_json(metadata["damage"], file.name))
        return FrameIndex(tiling, index, rest)


def _rest(damage: FormatError | None, end: int, file: StoredFile) -> FormatError | None:
    """Return the problem of the record behind the last whole line, if the compressed data are damaged."""
    if damage is None:
        return None
    found = f"{damage.found}; {file.size - end} of them behind the last whole line"
    return type(damage)(damage.what, path=file.name, offset_bytes=end, found=found, remedy=damage.remedy)
