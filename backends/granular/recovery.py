"""Finds the whole records and rows that an interrupted writer left."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from dataformats.backends.granular.bag_appender import ResumePoint
from dataformats.backends.granular.bags import BAG, IDX, limits_of
from dataformats.backends.granular.folder import REFS, SPEC
from dataformats.backends.granular.layout import ENTRY_BYTES
from dataformats.backends.granular.refs import parse_refs
from dataformats.errors import FormatError, SpecError
from dataformats.storage.atomic import sync
from dataformats.storage.files import LocalFile

__all__ = [
    "AHEAD_ROWS",
    "bag_resume_point",
    "check_spec",
    "column_resume_points",
    "refs_resume_points",
    "restore_index",
]

AHEAD_ROWS = 4096
"""How far one field may be ahead of another: the most rows that a writer writes at once."""

_ANEW = "write it again, without resume"


def bag_resume_point(bag: Path, idx: Path) -> ResumePoint:
    """Return where to resume a single bag.

    Raises:
        FormatError: The bag is shorter than its index says, or has bytes and no index.
    """
    n = _entries(bag, idx)
    return ResumePoint(n, _end(idx, n))


def column_resume_points(folder: Path, fields: Sequence[str]) -> tuple[int, dict[str, ResumePoint]]:
    """Return the rows that every field of a dataset of generation 3 has, and where to resume each bag.

    Raises:
        FormatError: A file is missing, a bag is shorter than its index says, or a field lacks more than `AHEAD_ROWS`
            records.
    """
    entries = _all_entries(folder, fields, (BAG, IDX))
    rows = min(entries.values())
    shortest, longest = min(entries, key=entries.__getitem__), max(entries, key=entries.__getitem__)
    if entries[longest] - rows > AHEAD_ROWS:
        raise FormatError(
            "one field has far fewer records than another, more than an interruption explains",
            path=str(folder / (shortest + IDX)),
            expected=f"about {entries[longest]} records, as {longest!r} has",
            found=rows,
            remedy=f"Nothing was changed; {_ANEW}",
        )
    return rows, {name: ResumePoint(rows, _end(folder / (name + IDX), rows)) for name in fields}


def refs_resume_points(folder: Path, sequences: Mapping[str, bool]) -> tuple[int, dict[str, ResumePoint]]:
    """Return the rows of a dataset of generation 2 that have all their records, and where to resume each bag.

    Args:
        folder: The dataset, unfinished or finished.
        sequences: Field, sorted, to True if it is a sequence.

    Raises:
        FormatError: A file is missing, or a bag is shorter than its index says.
    """
    names = (REFS, *sequences)
    for name in names:
        restore_index(folder / (name + BAG), folder / (name + IDX))
    # A sealed bag has no index, and an empty one is sealed without a byte.
    entries = _all_entries(folder, names, (BAG,))
    if not entries[REFS]:
        return 0, {}
    used = _used_records(folder, entries, list(sequences.values()))
    whole = np.ones(entries[REFS], bool)
    for name, needed in used.items():
        whole &= needed <= entries[name]
    rows = int(np.argmin(whole)) if not whole.all() else len(whole)
    kept = {name: int(needed[rows - 1]) if rows else 0 for name, needed in used.items()} | {REFS: rows}
    return rows, {name: ResumePoint(n, _end(folder / (name + IDX), n)) for name, n in kept.items()}


def check_spec(folder: Path, types: Mapping[str, str], generation: int) -> bool:
    """Return True if a folder has a dataset of this spec and generation to resume; False if it has none.

    Raises:
        SpecError: The dataset has another spec or generation.
    """
    try:
        found = json.loads((folder / SPEC).read_bytes())
    except (FileNotFoundError, ValueError):
        # It is the first file that a writer completes: without it there are no rows to keep.
        if any(path.stat().st_size for path in folder.glob(f"*{IDX}")):
            what = f"cannot resume: {str(folder / SPEC)!r} is missing or not JSON, but there are rows; {_ANEW}"
            raise SpecError(what) from None
        return False
    if found != dict(types):
        raise SpecError(f"cannot resume {str(folder)!r}: expected the spec {found!r:.500}, found {dict(types)!r:.500}")
    begun = 2 if (folder / (REFS + BAG)).exists() else 3
    if begun != generation:
        raise SpecError(f"cannot resume {str(folder)!r}: expected generation {begun}, found {generation}")
    return True


def _used_records(folder: Path, entries: Mapping[str, int], sequences: list[bool]) -> dict[str, np.ndarray]:
    """Return for each field the records that the rows up to each one need; more than exist if a row is damaged."""
    n = entries[REFS]
    ends = np.fromfile(folder / (REFS + IDX), "<u8", n).astype(np.int64)
    data = (folder / (REFS + BAG)).read_bytes()
    refs = parse_refs(data, np.concatenate([np.zeros(1, np.int64), ends])[:-1], ends, sequences)
    fields = [name for name in entries if name != REFS]
    used = {}
    for number, name in enumerate(fields):
        needed = np.where(refs.wrong, entries[name] + 1, refs.first[number] + refs.counts(number))
        # An empty sequence needs no records, whatever its first one.
        needed = np.where(~refs.wrong & (refs.counts(number) == 0), 0, needed)
        used[name] = np.maximum.accumulate(needed)
    return used


def restore_index(bag: Path, idx: Path) -> None:
    """Copy the table of a finished bag back into an index, if the bag was finished but not published."""
    if idx.exists() or not bag.exists() or bag.stat().st_size == 0:
        return
    file = LocalFile(bag)
    try:
        limits = limits_of(file, None)
    finally:
        file.release()
    partial = idx.with_name(idx.name + ".partial")
    with partial.open("wb") as target:
        target.write(limits.ends.astype("<u8").tobytes())
        target.flush()
        os.fsync(target.fileno())
    partial.rename(idx)
    sync(idx.parent)


def _all_entries(folder: Path, fields: Iterable[str], needed: Iterable[str]) -> dict[str, int]:
    """Return the entries of each field's bag.

    A writer creates all files before it appends the first row. So missing ones are 0 rows until there are rows.

    Args:
        folder: The dataset.
        fields: The fields.
        needed: Endings of the files that each field has if there are rows.
    """
    entries = {name: _entries(folder / (name + BAG), folder / (name + IDX)) for name in fields}
    if any(entries.values()):
        for path in (folder / (name + ending) for name in entries for ending in needed):
            if not path.exists():
                raise _missing(path)
    return entries


def _entries(bag: Path, idx: Path) -> int:
    """Return the number of whole ends in the index of a bag; all are inside the bag. Missing files are empty."""
    size = bag.stat().st_size if bag.exists() else 0
    if size and not idx.exists():
        raise _missing(idx)
    n = idx.stat().st_size // ENTRY_BYTES if idx.exists() else 0
    end = _end(idx, n)
    if end > size:
        if not bag.exists():
            raise _missing(bag)
        raise FormatError(
            "the bag is shorter than its index says: it was truncated, or a crash of the machine lost its last bytes",
            path=str(bag),
            expected=f"at least {end} bytes, where record {n - 1} ends",
            found=f"{size} bytes",
            remedy=f"Read the records that are left, and {_ANEW}",
        )
    return n


def _missing(path: Path) -> FormatError:
    return FormatError("cannot resume: a file is missing", path=str(path), remedy=f"Restore it, or {_ANEW}")


def _end(idx: Path, n: int) -> int:
    """Return where record n - 1 ends."""
    if n == 0:
        return 0
    with idx.open("rb") as file:
        file.seek(ENTRY_BYTES * (n - 1))
        return int.from_bytes(file.read(ENTRY_BYTES), "little")
