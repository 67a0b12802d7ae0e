"""Finds the sound items of an unfinished file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dataformats.backends.journaled.journal import Entries, Journal, StoredJournal, read_checksums, sound_entries
from dataformats.backends.journaled.journaled_file import journal_path
from dataformats.backends.syrah.layout import HEADER, Header, parse_header
from dataformats.backends.syrah.metadata import build_frames, metadata_bytes, parse_metadata, table_places
from dataformats.errors import FormatError, SpecError

JOURNAL_MAGIC = b"SYRJRNL2"
_BLOCK_BYTES = 2**20  # bytes of the tables read at once


def recover(path: Path, dtypes: dict[str, str]) -> Journal | None:
    """Return a new journal of the sound items at the front of an unfinished file, or `None` if there is no such file.

    Reads every item and checks its CRC. Does not change the file. The metadata of its journal are the dtypes of the
    arrays.

    Args:
        path: The unfinished file.
        dtypes: Array name to dtype, as the resuming writer has them.

    Raises:
        FormatError: There are data without a journal, so the items cannot be located.
        SpecError: The file has other arrays.
    """
    size = path.stat().st_size if path.is_file() else 0
    journal = stored_journal(path)
    if journal is not None:
        _check_same(path, journal.metadata, dtypes)
    if size == 0:
        return None
    with path.open("rb", buffering=0) as file:
        if journal is None:
            entries = _complete_entries(path, file.fileno(), size, dtypes)
        else:
            entries = sound_entries(file.fileno(), HEADER.size, journal.entries())
        return Journal(journal_path(path), JOURNAL_MAGIC, dtypes, len(dtypes), entries)


def stored_journal(path: Path) -> StoredJournal | None:
    """Return the journal of an unfinished file, or `None` if it has no sound journal."""
    return StoredJournal.find(journal_path(path), JOURNAL_MAGIC, lambda metadata, n: n == len(metadata))


def _complete_entries(path: Path, descriptor: int, size: int, dtypes: dict[str, str]) -> Iterator[Entries]:
    """Yield the entries of a complete file without a journal: its writer was killed between close and renaming."""
    try:
        header = parse_header(os.pread(descriptor, HEADER.size, 0), size, str(path))
        places = _places(descriptor, header, dtypes)
        found = (
            {}
            if places
            else parse_metadata(os.pread(descriptor, header.length, header.offset), str(path), header.offset)
        )
    except FormatError as error:
        raise FormatError(
            "cannot resume an unfinished file without its journal, which locates its items",
            path=str(path),
            remedy="Delete it, or write without resume",
        ) from error
    if not places:
        _check_same(path, {name: table.dtype for name, table in found.items()}, dtypes)
        raise _of_another_writer(path)
    at, n_items = HEADER.size, _n_items(header, dtypes)
    step = max(1, _BLOCK_BYTES // (8 * len(places)))
    for first in range(0, n_items, step):
        n_bytes = 8 * min(step, n_items - first)
        tables = [np.frombuffer(os.pread(descriptor, n_bytes, place + 8 * first), "<i8") for place in places]
        offsets, sizes = np.stack(tables[::2], axis=1), np.stack(tables[1::2], axis=1)
        ends = at + np.cumsum(sizes)
        is_sound = ((sizes >= 0) & (sizes <= header.offset)).all() and ends[-1] <= header.offset
        if not is_sound or (offsets.reshape(-1) != ends - sizes.reshape(-1)).any():
            raise _of_another_writer(path)
        checksums = np.concatenate([*read_checksums(descriptor, at, sizes.sum(axis=1))])
        yield Entries(sizes, checksums)
        at = int(ends[-1])


def _places(descriptor: int, header: Header, dtypes: dict[str, str]) -> list[int]:
    """Return where the tables of a file with these arrays begin; an empty list if it has other metadata."""
    n_items = _n_items(header, dtypes)
    if n_items < 0 or metadata_bytes(dtypes, n_items) != header.length:
        return []
    frames = build_frames(dtypes, n_items)
    places = table_places(frames, n_items, header.offset)
    found = [os.pread(descriptor, len(frame), place - len(frame)) for frame, place in zip(frames, places, strict=True)]
    return places[:-1] if found == frames else []


def _n_items(header: Header, dtypes: dict[str, str]) -> int:
    return (header.length - metadata_bytes(dtypes, 0)) // (16 * len(dtypes))


def _of_another_writer(path: Path) -> FormatError:
    return FormatError("cannot resume a file of another writer: expected arrays back to back", path=str(path))


def _check_same(path: Path, found: dict[str, str], dtypes: dict[str, str]) -> None:
    if list(found.items()) != list(dtypes.items()):
        raise SpecError(f"cannot resume {str(path)!r}: expected the arrays {found}, found {dtypes}")
