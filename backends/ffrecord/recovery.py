"""Finds the sound records of an unfinished file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataformats.backends.ffrecord.layout import (
    PREFIX,
    build_header,
    header_bytes,
    parse_prefix,
    parse_table,
    verify_header,
)
from dataformats.backends.journaled.journal import Entries, Journal, count_sound
from dataformats.backends.journaled.journaled_file import journal_path
from dataformats.errors import FormatError

__all__ = ["JOURNAL_MAGIC", "load_journal", "recover"]

JOURNAL_MAGIC = b"FFRJRNL2"
_MAX_BASE = 2**48  # tables of 2^44 records


def recover(path: Path) -> Entries | None:
    """Return the sound records at the front of an unfinished file, or `None` if there is no such file, or an empty one.

    Reads every record and checks its CRC. Changes neither file nor journal, whose one fact is `base`: the byte at
    which the first record begins.

    Raises:
        FormatError: There are data without a journal, so the records cannot be located.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size == 0:
        return None
    entries = load_journal(path)  # perhaps without an entry: the writer was killed before the first one
    if entries is None:
        entries = _read_complete(path, size)
    with path.open("rb", buffering=0) as file:
        return entries.first(count_sound(file.fileno(), entries.facts["base"], entries))


def load_journal(path: Path) -> Entries | None:
    """Return the entries of the journal of an unfinished file, or `None` if it has no sound journal."""
    entries = Journal.load(journal_path(path), JOURNAL_MAGIC, lambda facts, n: n == 1 and _is_base(facts))
    if entries is not None and _is_complete(path, path.stat().st_size, entries):
        return replace(entries, facts={"base": header_bytes(len(entries))})
    return entries


def _is_base(facts: Mapping[str, Any]) -> bool:
    base = facts.get("base")  # a file that was cut may be shorter
    return isinstance(base, int) and 0 <= base < _MAX_BASE


def _is_complete(path: Path, size: int, entries: Entries) -> bool:
    """True if the file is complete: its writer was killed before it deleted the journal."""
    if size != header_bytes(len(entries)) + entries.n_bytes:
        return False
    header = build_header(entries.lengths, entries.checksums)
    with path.open("rb") as file:
        return file.read(len(header)) == header


def _read_complete(path: Path, size: int) -> Entries:
    """Return the records of a complete file without a journal: its writer was killed between close and renaming."""
    try:
        with path.open("rb") as file:
            prefix = parse_prefix(file.read(PREFIX.size), size, str(path))
            file.seek(0)
            header = file.read(header_bytes(prefix.n_records))
        verify_header(header, str(path))
    except FormatError as error:
        raise FormatError(
            "cannot resume an unfinished file without its journal, which locates its records",
            path=str(path),
            remedy="Delete it, or write without resume",
        ) from error
    table = parse_table(header, prefix.n_records, size)
    return Entries({"base": table.first}, table.lengths()[:, None], table.checksums)
