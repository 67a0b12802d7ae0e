"""Finds the sound documents of a damaged pair.

There are no checksums: changed tokens cannot be noticed. But the tables show most of their own damage: a sequence ends
where the next one begins, and the entries of the table of documents rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.megatron.layout import HEADER, TokenTables, files_of_pair, read_tables
from dataformats.backends.megatron.reader import MegatronReader, index_of_tokens, joined_sequences
from dataformats.errors import FormatError
from dataformats.indexing.file_index import FileIndex
from dataformats.interfaces import Loss, SalvagePart, ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.salvage_rows import misplaced, salvage_rows

_CAUSE = "its entry, or the size or the pointer of a sequence, is damaged in the .idx file"


def salvage(data: StoredFile) -> ShardSalvage:
    """Find the sound documents of a pair.

    Args:
        data: The `.bin` file.

    Raises:
        FormatError: The `.idx` file is missing, or too short for the tables of sequences and documents.
    """
    reader = _SoundDocuments([data], sequences=False)
    return ShardSalvage(
        _with_unlisted_sequences(salvage_rows(reader, int(reader.counts.sum())), data), reader.stored_spec
    )


class _SoundDocuments(MegatronReader):
    """The documents of pairs; damaged entries, sizes and pointers are problems of their documents."""

    def index_of(self, file: StoredFile) -> FileIndex:
        tables = _tables(file)
        offset, length = tables.sequences()
        entries, is_sound = _documents(tables)
        is_known = is_sound[:-1] & is_sound[1:]
        first, behind = np.where(is_known, entries[:-1], 0), np.where(is_known, entries[1:], 0)
        n_wrong = np.concatenate([np.zeros(1, np.int64), np.cumsum(misplaced(offset, length, file.size))])
        offset, length, apart = joined_sequences(offset, length, first, behind)
        damaged = apart | ~is_known | (n_wrong[first] != n_wrong[behind])
        return index_of_tokens(file, tables.dtype, (offset, length), damaged, _CAUSE)


def _with_unlisted_sequences(parts: Iterator[SalvagePart], data: StoredFile) -> Iterator[SalvagePart]:
    """Yield the parts, then the sequences behind the last document of the table."""
    yield from parts
    tables = _tables(data)
    entries, is_sound = _documents(tables)
    end = int(entries[is_sound][-1])
    if end < tables.n_sequences and is_sound[-1]:
        start = int(tables.sequences()[0][end])
        yield Loss(data.name, "the table of documents ends early", min(start, data.size), data.size, len(entries) - 1)


def _tables(data: StoredFile) -> TokenTables:
    return read_tables(files_of_pair(data)[1], data, is_whole=False)


def _documents(tables: TokenTables) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the table of documents, as far as it is there, and which of its entries are sound.

    Raises:
        FormatError: No entry is.
    """
    base, n = HEADER.size + 12 * tables.n_sequences, tables.n_sequences
    n_there = (tables.idx.size - base) // 8
    entries = np.frombuffer(tables.idx.pread(base, 8 * n_there), "<i8").astype(np.int64)
    is_count = 0 < tables.n_entries <= n_there and entries[tables.n_entries - 1] == n
    entries = entries[: tables.n_entries if is_count else n_there]
    is_sound = (entries > 0) & (entries <= n)
    is_sound[:1] = entries[:1] == 0
    is_own = entries == np.arange(len(entries))
    if len(entries) == n + 1 and 2 * np.count_nonzero(is_own) > n:  # each sequence is a document, as far as is known
        is_sound &= is_own
    for wrong in _falling(entries, np.flatnonzero(is_sound).tolist()):
        is_sound[wrong] = False
    if not is_sound.any():
        what = "nothing can be saved: the table of documents is missing or damaged"
        raise FormatError(what, path=tables.idx.name, offset_bytes=base)
    return entries, is_sound


def _falling(entries: NDArray[np.int64], places: Sequence[int]) -> list[int]:
    """Return the places of entries to leave out so that the others rise.

    If one is less than the one before, either may be wrong, so both are left out.
    """
    if (np.diff(entries[places]) >= 0).all():
        return []
    values = entries.tolist()
    rising, wrong = list[int](), list[int]()
    for place in places:
        if rising and values[place] < values[rising[-1]]:
            wrong += [place, rising.pop()]
        else:
            rising.append(place)
    return wrong
