"""Finds the records of a bag whose ends in the index can be believed.

After a loss of power, each file may lack its last bytes, or have its new length and zeros for bytes. So an end is
believed if it does not fall below the end before it and lies inside the bag. Zeros behind other ends are a fall. Zeros
at the front may be the ends of empty records. They are believed if records may be empty and the bag has no bytes.
Records that were synced pass all of this, because they were synced before their ends, and the names of both files
before them.

Records have no checksums, so the ends cannot show zeros in a record. The journal of the writer does: what it does not
prove is cut off before the ends are read (`RecordJournal`). The ends alone count for data of other programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.bag_appender import ResumePoint
from dataformats.backends.granular.bag_limits import layout_of
from dataformats.backends.granular.layout import ENTRY_BYTES, parse_limits
from dataformats.errors import FormatError
from dataformats.storage.atomic import write_chunks
from dataformats.storage.files import LocalFile

ANEW = "write it again, without resume"
_BLOCK_ENTRIES = 2**14


def intact_records(bag: Path, idx: Path, least_end: int, finished: int | None) -> int:
    """Return the number of records at the front whose ends are believed. Missing files are empty.

    Args:
        bag: The records.
        idx: Their ends.
        least_end: The least end that is believed: 1 if no record is empty, else 0.
        finished: Records that an interruption cannot have damaged; `None`: all, but for zeros behind others.

    Raises:
        FormatError: The index is missing, or the last finished record is damaged.
    """
    size = bag.stat().st_size if bag.exists() else 0
    if not idx.exists():
        if size:
            raise missing_file(idx)
        return 0
    with idx.open("rb") as file:
        n = idx.stat().st_size // ENTRY_BYTES
        if finished is None:
            finished = n = _without_zeros(file, n)
        # The last two finished ends are enough to know where to append.
        whole, end = max(0, finished - 2), least_end
        for ends in read_ends(file, whole, n):
            wrong = np.flatnonzero((np.diff(ends, prepend=end) < 0) | (ends > size))
            whole += int(wrong[0]) if len(wrong) else len(ends)
            if len(wrong):
                break
            end = int(ends[-1])
    if whole < finished:
        if not bag.exists():
            raise missing_file(bag)
        raise _damaged(bag, idx, whole, size)
    return whole if _end(idx, whole) or not size else finished


def resume_point(idx: Path, n: int) -> ResumePoint:
    """Return where to resume behind the first `n` records."""
    return ResumePoint(n, _end(idx, n))


def restore_index(bag: Path, idx: Path) -> None:
    """Copy the table of a finished bag back into an index, if the bag was finished but not published.

    Raises:
        FormatError: The bag has no table, or an implausible one.
    """
    if idx.exists() or not bag.exists() or bag.stat().st_size == 0:
        return
    file = LocalFile(bag)
    try:
        write_chunks(idx, _table(file))
    finally:
        file.release()


def _table(bag: LocalFile) -> Iterator[bytes]:
    """Yield the ends in the table of a bag, each checked against the one before."""
    layout = layout_of(bag, None)
    for first in range(0, layout.n_records, _BLOCK_ENTRIES):
        low, stop = max(0, first - 1), min(first + _BLOCK_ENTRIES, layout.n_records)
        part = replace(layout, n_records=stop - low, table_offset=layout.table_offset + ENTRY_BYTES * low)
        table = bag.pread(part.table_offset, part.table_bytes)
        parse_limits(table, part)
        yield table[ENTRY_BYTES * (first - low) :]


def read_ends(idx: IO[bytes], first: int, stop: int) -> Iterator[NDArray[np.int64]]:
    """Yield the ends of the records `[first, stop)`, in blocks."""
    idx.seek(ENTRY_BYTES * first)
    for at in range(first, stop, _BLOCK_ENTRIES):
        stored = np.frombuffer(idx.read(ENTRY_BYTES * min(_BLOCK_ENTRIES, stop - at)), "<u8")
        yield np.minimum(stored, np.uint64(2**63 - 1)).astype(np.int64)


def missing_file(path: Path) -> FormatError:
    """Return the error of a file that an interruption cannot have removed."""
    return FormatError("cannot resume: a file is missing", path=str(path), remedy=f"Restore it, or {ANEW}")


def _without_zeros(idx: IO[bytes], n: int) -> int:
    """Return the number of ends before the zeros at the end of an index; all if there are only zeros."""
    for stop in range(n, 0, -_BLOCK_ENTRIES):
        first = max(0, stop - _BLOCK_ENTRIES)
        nonzero = np.flatnonzero(next(read_ends(idx, first, stop)))
        if len(nonzero):
            return first + int(nonzero[-1]) + 1
    return n


def _damaged(bag: Path, idx: Path, n_whole: int, size: int) -> FormatError:
    remedy = f"Nothing was changed. Repair it, or {ANEW}"
    end = _end(idx, n_whole + 1)
    if end > size:
        return FormatError(
            "the bag is shorter than its index says: it was truncated, or a crash of the machine lost its last bytes",
            path=str(bag),
            expected=f"at least {end} bytes, where record {n_whole} ends",
            found=f"{size} bytes",
            remedy=remedy,
        )
    what = "finished records are missing, or their ends are out of order"
    return FormatError(what, path=str(idx), offset_bytes=ENTRY_BYTES * n_whole, remedy=remedy)


def _end(idx: Path, n: int) -> int:
    """Return where record n - 1 ends."""
    if n == 0:
        return 0
    with idx.open("rb") as file:
        file.seek(ENTRY_BYTES * (n - 1))
        return int.from_bytes(file.read(ENTRY_BYTES), "little")
