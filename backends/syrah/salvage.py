"""Finds the items of a damaged Syrah file.

The format has no checksums: changed bytes inside an array cannot be noticed. The metadata at the end of the file show
their own length, so a damaged header costs nothing. Without metadata, the journal of the writer locates the arrays.
"""

from __future__ import annotations

import numpy as np

from dataformats.backends.syrah.document import INT32
from dataformats.backends.syrah.layout import HEADER, MAX_METADATA_BYTES, Header, build_header
from dataformats.backends.syrah.metadata import ITEM_BYTES, build_metadata, parse_metadata
from dataformats.backends.syrah.reader import SyrahReader
from dataformats.errors import CorruptRecordError, FormatError
from dataformats.interfaces import ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.salvage_rows import misplaced, salvage_rows, salvage_spliced
from dataformats.storage.record_journal import StoredJournal, journal_of, sound_entries

_STEP = 4 * 2**20
_MIN_BYTES = 5  # bytes of a document


def salvage(file: StoredFile) -> ShardSalvage:
    """Find the sound items of a file.

    Raises:
        FormatError: Nothing locates the arrays.
    """
    try:
        return _of(file)
    except FormatError as error:
        damage = error
    header = _behind_metadata(file) or _metadata_at_end(file)
    if header is not None:
        return _by_metadata(file, header)
    journal = journal_of(file)
    if journal is not None and journal.n_sizes == len(journal.metadata):
        return _by_journal(file, journal)
    damage.remedy = "Nothing can be saved: no metadata locate the arrays, and there is no journal of the writer"
    raise damage


def _of(file: StoredFile) -> ShardSalvage:
    reader = SyrahReader([file])
    assert reader.spec is not None  # a reader of fields
    for name, kind in reader.spec.items():
        if kind.codec not in ITEM_BYTES and kind.codec != "utf8":
            raise CorruptRecordError(
                f"nothing can be saved: Syrah has no such dtype as array {name!r} has",
                path=file.name,
                expected=", ".join(ITEM_BYTES),
                found=kind.codec,
            )
    return ShardSalvage(salvage_rows(reader, int(reader.counts.sum()), _misplaced(reader)), reader.spec)


def _misplaced(reader: SyrahReader) -> dict[int, str]:
    """Return the items with an array that does not end where the next one begins, if most do.

    The known writers leave no gaps. So the tables show a wrong offset or size, though not what was there.
    """
    file, n_items, names = reader.files[0], int(reader.counts.sum()), list(reader.spec or ())
    end_of_data = HEADER.unpack(file.pread(0, HEADER.size))[-2]
    located = reader.locate(np.arange(n_items), dict.fromkeys(names, True))
    offset = np.stack([located[name].extents.offset for name in names], axis=1).reshape(-1)
    length = np.stack([located[name].extents.length for name in names], axis=1).reshape(-1)
    wrong = np.unique(np.flatnonzero(misplaced(offset, length, end_of_data)) // len(names)).tolist()
    return dict.fromkeys(wrong, "an array does not end where the next one begins")


# ---- by the metadata


def _by_metadata(file: StoredFile, header: Header) -> ShardSalvage:
    """Return the items of metadata that a new header leads to."""
    pieces: list[bytes | range] = [
        build_header(header.offset, header.length),
        range(HEADER.size, header.offset + header.length),
    ]
    note = "the header is damaged or does not fit the file"
    return salvage_spliced(file, pieces, _of, note, "nothing locates items in these bytes")


def _behind_metadata(file: StoredFile) -> Header | None:
    """Return the header if it is right, and bytes follow the metadata."""
    head = file.pread(0, HEADER.size)
    if len(head) < HEADER.size:
        return None
    *_, offset, length = HEADER.unpack(head)
    fits = HEADER.size <= offset <= file.size - _MIN_BYTES and _MIN_BYTES <= length <= min(
        file.size - offset, MAX_METADATA_BYTES
    )
    return _checked(file, Header("", offset, length)) if fits else None


def _metadata_at_end(file: StoredFile) -> Header | None:
    """Return the header of metadata that end with the file, which show their own length."""
    least = max(HEADER.size, file.size - MAX_METADATA_BYTES)
    for stop in range(file.size - _MIN_BYTES + 1, least, -_STEP):
        start = max(least, stop - _STEP)
        octets = np.frombuffer(file.pread(start, stop - start + INT32.size - 1), np.uint8)
        words = np.lib.stride_tricks.sliding_window_view(octets, INT32.size).copy().view("<i4").reshape(-1)
        places = np.arange(start, start + len(words))
        for offset in places[words == file.size - places][::-1].tolist():
            header = _checked(file, Header("", offset, file.size - offset))
            if header is not None:
                return header
    return None


def _checked(file: StoredFile, header: Header) -> Header | None:
    """Return the header if it leads to metadata, else `None`."""
    if INT32.unpack(file.pread(header.offset, INT32.size))[0] != header.length:
        return None
    try:
        parse_metadata(file.pread(header.offset, header.length), file.name, header.offset)
    except FormatError:
        return None
    return header


# ---- by the journal


def _by_journal(file: StoredFile, journal: StoredJournal) -> ShardSalvage:
    """Return the items at the front of an unfinished file that its journal proves."""
    dtypes, n_arrays, entries = dict(journal.metadata), journal.n_sizes, journal.load()
    with open(file.name, "rb", buffering=0) as data:
        n = sum(map(len, sound_entries([data.fileno()], journal.bases, [entries])))
    sizes = entries.sizes[:n].reshape(-1).astype("<i8")
    offsets = (HEADER.size + np.cumsum(sizes) - sizes).astype("<i8")
    tables = [[table[array::n_arrays].tobytes() for array in range(n_arrays)] for table in (offsets, sizes)]
    metadata = b"".join(build_metadata(dtypes, *tables))
    end = HEADER.size + int(sizes.sum())
    pieces: list[bytes | range] = [build_header(end, len(metadata)), range(HEADER.size, end), metadata]
    n_lost = len(entries) - n
    cause = "items differ from the journal, or are cut" if n_lost else "the journal lists no items in these bytes"
    note = "the file is unfinished; the journal locates the items"
    return salvage_spliced(file, pieces, _of, note, cause, index=n, n_lost=n_lost)
