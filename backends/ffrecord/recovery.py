"""What a killed writer left: which of its records are sound."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.ffrecord.journal import Entries, Journal
from dataformats.backends.ffrecord.layout import (
    PREFIX,
    build_header,
    header_bytes,
    parse_prefix,
    parse_table,
    verify_header,
)
from dataformats.errors import FormatError
from dataformats.kernels import crc32, crc32_extents

__all__ = ["recover"]

_CHUNK_BYTES = 16 * 2**20


def recover(path: Path, journal: Path) -> Entries | None:
    """Return the sound records at the front of an unfinished file; `None` where nothing is there.

    Every record is read and its CRC checked. Neither file is changed.

    Raises:
        FormatError: There are data, and nothing tells where its records are.
    """
    size = path.stat().st_size if path.is_file() else 0
    entries = Journal.load(journal)
    if entries is None:
        if size == 0:
            return None
        entries = _finished_alone(path, size)
    elif _is_finished(path, size, entries):
        entries = Entries(header_bytes(len(entries)), entries.lengths, entries.checksums)
    if size == 0:
        return entries.first(0)
    with path.open("rb", buffering=0) as file:
        return entries.first(_count_sound(file.fileno(), size, entries))


def _is_finished(path: Path, size: int, entries: Entries) -> bool:
    """Return True for a file that was completed when its writer was killed before it deleted the journal."""
    if size != header_bytes(len(entries)) + entries.n_bytes:
        return False
    header = build_header(entries.lengths, entries.checksums)
    with path.open("rb") as file:
        return file.read(len(header)) == header


def _finished_alone(path: Path, size: int) -> Entries:
    """Return the records of a complete file without a journal: killed between close and renaming."""
    try:
        with path.open("rb") as file:
            prefix = parse_prefix(file.read(PREFIX.size), size, str(path))
            file.seek(0)
            header = file.read(header_bytes(prefix.n_records))
        verify_header(header, str(path))
    except FormatError as error:
        raise FormatError(
            "an unfinished file without its journal: where its records end is not known",
            path=str(path),
            remedy="delete it, or write without resume",
        ) from error
    table = parse_table(header, prefix.n_records, size)
    return Entries(table.first, table.lengths(), table.checksums)


def _count_sound(descriptor: int, size: int, entries: Entries) -> int:
    """Return how many records at the front have the CRC that the journal says."""
    ends = entries.base + np.cumsum(entries.lengths)
    inside = int(np.searchsorted(ends, size, side="right")) if len(ends) else 0
    done = 0
    while done < inside:
        start = int(ends[done - 1]) if done else entries.base
        reached = int(np.searchsorted(ends[:inside], start + _CHUNK_BYTES, side="right"))
        stop = max(done + 1, reached)
        computed = _checksums(descriptor, start, entries.lengths[done:stop])
        if len(wrong := np.flatnonzero(computed != entries.checksums[done:stop])):
            return done + int(wrong[0])
        done = stop
    return inside


def _checksums(descriptor: int, start: int, lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return uint32[n], the CRC-32 of records back to back; a single one may be of any length."""
    if len(lengths) == 1:
        value, stop = 0, start + int(lengths[0])
        while start < stop and (piece := os.pread(descriptor, min(_CHUNK_BYTES, stop - start), start)):
            value, start = crc32(piece, value), start + len(piece)
        return np.array([value], np.uint32)
    data = os.pread(descriptor, int(lengths.sum()), start)
    return crc32_extents(data, np.cumsum(lengths) - lengths, lengths)
