"""What a killed writer left: which of its items are sound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.syrah.journal import Entries, Journal
from dataformats.backends.syrah.layout import HEADER, parse_header
from dataformats.backends.syrah.metadata import parse_metadata
from dataformats.errors import FormatError, SpecError
from dataformats.kernels import crc32, crc32_extents

__all__ = ["recover"]

_CHUNK_BYTES = 16 * 2**20


def recover(path: Path, journal: Path, dtypes: dict[str, str]) -> Entries | None:
    """Return the sound items at the front of an unfinished file; `None` where nothing is there.

    Every item is read and its CRC checked. Neither file is changed.

    Args:
        path: The unfinished file.
        journal: Its journal.
        dtypes: Array name to dtype, as the resuming writer has them.

    Raises:
        FormatError: There are data, and nothing tells where its items are.
        SpecError: It was begun with other arrays.
    """
    size = path.stat().st_size if path.is_file() else 0
    entries = Journal.load(journal)
    if entries is None:
        return _finished_alone(path, size, dtypes) if size else None
    _check_same(path, entries.dtypes, dtypes)
    if size <= HEADER.size:
        return entries.first(0)
    with path.open("rb", buffering=0) as file:
        return entries.first(_count_sound(file.fileno(), size, entries))


def _finished_alone(path: Path, size: int, dtypes: dict[str, str]) -> Entries:
    """Return the items of a complete file without a journal: killed between close and renaming."""
    try:
        with path.open("rb") as file:
            header = parse_header(file.read(HEADER.size), size, str(path))
            file.seek(header.offset)
            tables = parse_metadata(file.read(), str(path), header.offset)
    except FormatError as error:
        raise FormatError(
            "an unfinished file without its journal: where its items end is not known",
            path=str(path),
            remedy="delete it, or write without resume",
        ) from error
    _check_same(path, {name: table.dtype for name, table in tables.items()}, dtypes)
    sizes = np.stack([table.size for table in tables.values()], axis=1)
    offsets = np.stack([table.offset for table in tables.values()], axis=1)
    if (offsets.reshape(-1) != HEADER.size + np.cumsum(sizes) - sizes.reshape(-1)).any():
        raise FormatError("a file that this writer did not write cannot be resumed", path=str(path))
    entries = Entries(dtypes, sizes, np.zeros(len(sizes), np.uint32))
    with path.open("rb", buffering=0) as file:
        parts = [computed for _, computed in _read_checksums(file.fileno(), entries, len(entries))]
    return Entries(dtypes, sizes, np.concatenate([entries.checksums[:0], *parts]))


def _check_same(path: Path, found: dict[str, str], dtypes: dict[str, str]) -> None:
    if list(found.items()) != list(dtypes.items()):
        raise SpecError(f"{str(path)!r} was begun with the arrays {found}, and cannot be resumed with {dtypes}")


def _count_sound(descriptor: int, size: int, entries: Entries) -> int:
    """Return how many items at the front have the CRC that the journal says."""
    ends = HEADER.size + np.cumsum(entries.sizes.sum(axis=1))
    inside = int(np.searchsorted(ends, size, side="right"))
    for first, computed in _read_checksums(descriptor, entries, inside):
        if len(wrong := np.flatnonzero(computed != entries.checksums[first : first + len(computed)])):
            return first + int(wrong[0])
    return inside


def _read_checksums(descriptor: int, entries: Entries, count: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """Yield the number of an item and the CRCs of it and those behind it, a few megabytes at a time."""
    lengths = entries.sizes[:count].sum(axis=1)
    ends = HEADER.size + np.cumsum(lengths)
    done = 0
    while done < count:
        start = int(ends[done - 1]) if done else HEADER.size
        stop = max(done + 1, int(np.searchsorted(ends, start + _CHUNK_BYTES, side="right")))
        yield done, _checksums(descriptor, start, lengths[done:stop])
        done = stop


def _checksums(descriptor: int, start: int, lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return uint32[n], the CRC-32 of items back to back; a single one may be of any length."""
    if len(lengths) == 1:
        value, stop = 0, start + int(lengths[0])
        while start < stop and (piece := os.pread(descriptor, min(_CHUNK_BYTES, stop - start), start)):
            value, start = crc32(piece, value), start + len(piece)
        return np.array([value], np.uint32)
    data = os.pread(descriptor, int(lengths.sum()), start)
    return crc32_extents(data, np.cumsum(lengths) - lengths, lengths)
