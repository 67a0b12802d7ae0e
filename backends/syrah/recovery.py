"""Finds the sound items of an unfinished file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dataformats.backends.journaled.journal import Entries, Journal, count_sound, read_checksums
from dataformats.backends.journaled.journaled_file import journal_path
from dataformats.backends.syrah.layout import HEADER, parse_header
from dataformats.backends.syrah.metadata import parse_metadata
from dataformats.errors import FormatError, SpecError

__all__ = ["JOURNAL_MAGIC", "load_journal", "recover"]

JOURNAL_MAGIC = b"SYRJRNL2"


def recover(path: Path, dtypes: dict[str, str]) -> Entries | None:
    """Return the sound items at the front of an unfinished file, or `None` if there is no such file.

    Reads every item and checks its CRC. Changes neither file nor journal, whose facts are the dtypes of the arrays.

    Args:
        path: The unfinished file.
        dtypes: Array name to dtype, as the resuming writer has them.

    Raises:
        FormatError: There are data without a journal, so the items cannot be located.
        SpecError: The file has other arrays.
    """
    size = path.stat().st_size if path.is_file() else 0
    entries = load_journal(path)
    if entries is None:
        return _read_complete(path, size, dtypes) if size else None
    _check_same(path, entries.facts, dtypes)
    if size <= HEADER.size:
        return entries.first(0)
    with path.open("rb", buffering=0) as file:
        return entries.first(count_sound(file.fileno(), HEADER.size, entries))


def load_journal(path: Path) -> Entries | None:
    """Return the entries of the journal of an unfinished file, or `None` if it has no sound journal."""
    return Journal.load(journal_path(path), JOURNAL_MAGIC, lambda facts, n: n == len(facts))


def _read_complete(path: Path, size: int, dtypes: dict[str, str]) -> Entries:
    """Return the items of a complete file without a journal: its writer was killed between close and renaming."""
    try:
        with path.open("rb") as file:
            header = parse_header(file.read(HEADER.size), size, str(path))
            file.seek(header.offset)
            tables = parse_metadata(file.read(), str(path), header.offset)
    except FormatError as error:
        raise FormatError(
            "cannot resume an unfinished file without its journal, which locates its items",
            path=str(path),
            remedy="Delete it, or write without resume",
        ) from error
    _check_same(path, {name: table.dtype for name, table in tables.items()}, dtypes)
    sizes = np.stack([table.size for table in tables.values()], axis=1)
    offsets = np.stack([table.offset for table in tables.values()], axis=1)
    if (offsets.reshape(-1) != HEADER.size + np.cumsum(sizes) - sizes.reshape(-1)).any():
        raise FormatError("cannot resume a file of another writer: expected arrays back to back", path=str(path))
    with path.open("rb", buffering=0) as file:
        parts = read_checksums(file.fileno(), HEADER.size, sizes.sum(axis=1))
        return Entries(dtypes, sizes, np.concatenate([np.zeros(0, np.uint32), *parts]))


def _check_same(path: Path, found: dict[str, str], dtypes: dict[str, str]) -> None:
    if list(found.items()) != list(dtypes.items()):
        raise SpecError(f"cannot resume {str(path)!r}: expected the arrays {found}, found {dtypes}")
