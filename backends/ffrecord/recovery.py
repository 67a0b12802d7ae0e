"""What a killed writer left: which of its records are sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dataformats.backends.ffrecord.layout import (
    PREFIX,
    build_header,
    header_bytes,
    parse_prefix,
    parse_table,
    verify_header,
)
from dataformats.errors import FormatError
from dataformats.writing.journal import Entries, Journal, count_sound

__all__ = ["JOURNAL_MAGIC", "recover"]

JOURNAL_MAGIC = b"FFRJRNL2"


def recover(path: Path, journal: Path) -> Entries | None:
    """Return the sound records at the front of an unfinished file; `None` where nothing is there.

    Its journal's one fact is `base`, where in the file the first record begins.
    Every record is read and its CRC checked. Neither file is changed.

    Raises:
        FormatError: There are data, and nothing tells where its records are.
    """
    size = path.stat().st_size if path.is_file() else 0
    entries = Journal.load(journal, JOURNAL_MAGIC)
    if entries is None:
        if size == 0:
            return None
        entries = _finished_alone(path, size)
    elif _is_finished(path, size, entries):
        entries = replace(entries, facts={"base": header_bytes(len(entries))})
    if size == 0:
        return entries.first(0)
    with path.open("rb", buffering=0) as file:
        return entries.first(count_sound(file.fileno(), entries.facts["base"], entries))


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
    return Entries({"base": table.first}, table.lengths()[:, None], table.checksums)
