"""Finds the sound records of an unfinished file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataformats.backends.ffrecord.layout import PREFIX, header_bytes, header_pieces
from dataformats.backends.ffrecord.table_index import TableIndex
from dataformats.backends.journaled.journal import Entries, Journal, StoredJournal, sound_entries
from dataformats.backends.journaled.journaled_file import journal_path
from dataformats.errors import FormatError
from dataformats.kernels import crc32
from dataformats.storage.files import LocalFile

JOURNAL_MAGIC = b"FFRJRNL2"
_MAX_BASE = 2**48  # tables of 2^44 records
_BLOCK_RECORDS = 2**16


def recover(path: Path) -> Journal | None:
    """Return a new journal of the sound records at the front of an unfinished file, or `None` without such a file.

    Reads every record and checks its CRC. Does not change the file. The one fact of its journal is `base`: the byte at
    which the first record begins.

    Raises:
        FormatError: There are data without a journal, so the records cannot be located.
    """
    if not path.is_file():
        return None
    journal = stored_journal(path)  # perhaps without an entry: the writer was killed before the first one
    if journal is not None:
        base, entries = journal.metadata["base"], journal.entries()
    elif path.stat().st_size == 0:
        return None
    else:
        base, entries = _complete_table(LocalFile(path))
    with path.open("rb", buffering=0) as file:
        sound = sound_entries(file.fileno(), base, entries)
        return Journal(journal_path(path), JOURNAL_MAGIC, {"base": base}, 1, sound)


def stored_journal(path: Path) -> StoredJournal | None:
    """Return the journal of an unfinished file, or `None` if it has no sound journal."""
    journal = StoredJournal.find(journal_path(path), JOURNAL_MAGIC, lambda metadata, n: n == 1 and _is_base(metadata))
    if journal is not None and _is_complete(path, journal):
        return replace(journal, metadata={"base": header_bytes(journal.n_listed)})
    return journal


def _is_base(metadata: Mapping[str, Any]) -> bool:
    base = metadata.get("base")  # a file that was cut may be shorter
    return isinstance(base, int) and 0 <= base < _MAX_BASE


def _is_complete(path: Path, journal: StoredJournal) -> bool:
    """True if the file has the header of all records: its writer was killed before it deleted the journal."""
    with path.open("rb") as file:
        prefix, n = file.read(PREFIX.size), journal.n_listed
        if prefix[4:] != PREFIX.pack(0, n)[4:]:
            return False  # saves reading the journal
        file.seek(4)
        checksum = 0
        for piece in header_pieces(n, lambda: ((block.lengths, block.checksums) for block in journal.entries())):
            if file.read(len(piece)) != piece:
                return False
            checksum = crc32(piece, checksum)
    return checksum == int.from_bytes(prefix[:4], "little")


def _complete_table(file: LocalFile) -> tuple[int, Iterator[Entries]]:
    """Return base and entries of a complete file without a journal: its writer was killed before renaming it."""
    try:
        table = TableIndex(file, verify=True)
        table.verify()
        if table.is_old:
            raise FormatError("the header has no checksum")
    except FormatError as error:
        file.release()
        raise FormatError(
            "cannot resume an unfinished file without its journal, which locates its records",
            path=file.name,
            remedy="Delete it, or write without resume",
        ) from error
    return header_bytes(len(table)), _entries_of(table, file)


def _entries_of(table: TableIndex, file: LocalFile) -> Iterator[Entries]:
    try:
        for low in range(0, len(table), _BLOCK_RECORDS):
            part = table.entries(low, min(low + _BLOCK_RECORDS, len(table)))
            yield Entries(part.lengths()[:, None], part.checksums)
    finally:
        file.release()
