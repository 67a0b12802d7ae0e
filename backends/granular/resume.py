"""Finds the whole rows that an interrupted writer left: those whose records are whole in all fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.bag_appender import ResumePoint
from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.folder import REFS, SPEC
from dataformats.backends.granular.intact_records import (
    ANEW,
    intact_records,
    missing_file,
    read_ends,
    restore_index,
    resume_point,
)
from dataformats.backends.granular.refs import parse_refs
from dataformats.backends.granular.stored_types import is_sequence, may_be_empty
from dataformats.errors import FormatError, SpecError
from dataformats.spec import Spec

AHEAD_ROWS = 4096
"""How far one field may be ahead of another if a process is killed: the most rows that a writer writes at once."""

_TOO_MANY = 2**62  # records


def is_partial(path: Path) -> bool:
    """True for a dataset or bag under a partial name, which has no finished rows."""
    return path.name.endswith(".partial")


def column_resume_points(folder: Path, types: Spec, finished: int | None) -> tuple[int, dict[str, ResumePoint]]:
    """Return the rows that every field of a dataset of generation 3 has, and where to resume each bag.

    Args:
        folder: The dataset.
        types: The stored type of each field.
        finished: Rows that an interruption cannot have damaged; `None`: all, but for zeros behind others.

    Raises:
        FormatError: A file is missing, finished rows are damaged, or a field of finished data lacks more than
            `AHEAD_ROWS` records.
    """
    least_ends = {name: 0 if may_be_empty(kind) else 1 for name, kind in types.items()}
    entries = _all_records(folder, least_ends, (BAG, IDX), finished)
    rows = min(entries.values())
    shortest, longest = min(entries, key=entries.__getitem__), max(entries, key=entries.__getitem__)
    if finished is None and entries[longest] - rows > AHEAD_ROWS:
        raise FormatError(
            "one field has far fewer records than another, more than an interruption explains",
            path=str(folder / (shortest + IDX)),
            expected=f"about {entries[longest]} records, as {longest!r} has",
            found=rows,
            remedy=f"Nothing was changed; {ANEW}",
        )
    return rows, {name: resume_point(folder / (name + IDX), rows) for name in types}


def refs_resume_points(folder: Path, types: Spec) -> tuple[int, dict[str, ResumePoint]]:
    """Return the rows of a dataset of generation 2 that have all their records, and where to resume each bag.

    Args:
        folder: The dataset, unfinished or finished.
        types: The stored type of each field.

    Raises:
        FormatError: A file is missing.
    """
    for name in (REFS, *types):
        restore_index(folder / (name + BAG), folder / (name + IDX))
    # A sealed bag has no index, and an empty one is sealed without a byte.
    entries = _all_records(folder, dict.fromkeys((REFS, *types), 1), (BAG,), finished=0)
    if not entries[REFS]:
        return 0, {}
    held = np.array([entries[name] for name in sorted(types)])
    rows, used = 0, np.zeros(len(held), np.int64)
    for needed in _needed_records(folder, entries[REFS], [is_sequence(types[name]) for name in sorted(types)]):
        whole = np.all(needed <= held, axis=1)
        n = len(needed) if whole.all() else int(np.argmin(whole))
        rows, used = rows + n, np.maximum(used, needed[:n].max(axis=0, initial=0))
        if n < len(needed):
            break
    kept = {REFS: rows, **dict(zip(sorted(types), used.tolist(), strict=True))}
    return rows, {name: resume_point(folder / (name + IDX), n) for name, n in kept.items()}


def check_spec(folder: Path, types: Mapping[str, str], generation: int) -> bool:
    """Return True if a folder has a dataset of this spec and generation to resume; False if it has none.

    Raises:
        SpecError: The dataset has another spec or generation.
    """
    try:
        found = json.loads((folder / SPEC).read_bytes())
    except (FileNotFoundError, ValueError):
        # It is on the disk before the first row: without it there are no rows to keep.
        if any(path.stat().st_size for path in folder.glob(f"*{IDX}")):
            what = f"cannot resume: {str(folder / SPEC)!r} is missing or not JSON, but there are rows; {ANEW}"
            raise SpecError(what) from None
        return False
    if found != dict(types):
        raise SpecError(f"cannot resume {str(folder)!r}: expected the spec {found!r:.500}, found {dict(types)!r:.500}")
    begun = 2 if (folder / (REFS + BAG)).exists() else 3
    if begun != generation:
        raise SpecError(f"cannot resume {str(folder)!r}: expected generation {begun}, found {generation}")
    return True


def _needed_records(folder: Path, n_rows: int, sequences: list[bool]) -> Iterator[NDArray[np.int64]]:
    """Yield int64[n, fields] for the rows in `refs.bag`: the records of each field that a row needs, from the first.

    A row that does not parse needs more than any field has.
    """
    start = 0
    with (folder / (REFS + IDX)).open("rb") as idx, (folder / (REFS + BAG)).open("rb") as bag:
        for ends in read_ends(idx, 0, n_rows):
            data = bag.read(int(ends[-1]) - start)
            starts = np.append(np.int64(start), ends[:-1])
            refs = parse_refs(data, starts - start, ends - start, sequences)
            counts = [refs.counts(number) for number in range(len(sequences))]
            # An empty sequence needs no records, whatever its first one.
            columns = [np.where(count == 0, 0, first + count) for first, count in zip(refs.first, counts, strict=True)]
            needed = np.stack(columns, axis=1)
            needed[refs.wrong | (needed < 0).any(axis=1)] = _TOO_MANY
            yield needed
            start = int(ends[-1])


def _all_records(
    folder: Path, least_ends: Mapping[str, int], needed: Iterable[str], finished: int | None
) -> dict[str, int]:
    """Return the whole records of each bag.

    A writer creates all files before it appends the first row. So missing ones are 0 rows until there are rows.

    Args:
        folder: The dataset.
        least_ends: The bags, with the least end that is believed: see `intact_records`.
        needed: Endings of the files that each bag has if there are rows.
        finished: See `intact_records`.
    """
    entries = {
        name: intact_records(folder / (name + BAG), folder / (name + IDX), least_end, finished)
        for name, least_end in least_ends.items()
    }
    if any(entries.values()):
        for path in (folder / (name + ending) for name in entries for ending in needed):
            if not path.exists():
                raise missing_file(path)
    return entries
