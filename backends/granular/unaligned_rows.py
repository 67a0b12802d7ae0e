"""The data behind the last whole row of a dataset: fields of different lengths, and torn indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dataformats.backends.granular.bag_limits import layout_of
from dataformats.backends.granular.folder import SPEC, ColumnFiles, DatasetFiles
from dataformats.backends.granular.layout import ENTRY_BYTES, BagLayout, indexed_layout
from dataformats.backends.granular.stored_types import is_sequence
from dataformats.errors import FormatError, TruncatedError
from dataformats.storage.record_journal import StoredJournal, journal_path
from dataformats.storage.threads import concurrent_map

_SHOWN = 8  # fields that a message names
_RESUME = "Append the missing rows with create(..., resume=True)"


def unaligned_rows(files: DatasetFiles, n_rows: int) -> FormatError | None:
    """Return the error of the records that no whole row has; `None` if there are none.

    Args:
        files: The files of the dataset.
        n_rows: The number of whole rows.
    """
    if files.refs is not None:
        return _rest_of_refs(files, n_rows)
    rest = _rest_of_columns(files)
    return None if rest is not None and _are_being_written(files, n_rows) else rest


def index_layout(column: ColumnFiles) -> BagLayout:
    """Return the layout of a field's bag in generation 3; reads nothing."""
    assert column.idx is not None  # generation 3; for the type checker
    return indexed_layout(column.bag.size, column.idx.size, column.idx.name)


def _rest_of_columns(files: DatasetFiles) -> FormatError | None:
    """Return the error of a field of generation 3 that ends before the others, or within an entry."""
    layouts = {name: index_layout(column) for name, column in files.columns.items()}
    records = {name: layout.n_records for name, layout in layouts.items()}
    shortest, longest = min(records, key=records.__getitem__), max(records, key=records.__getitem__)
    if records[shortest] == records[longest]:
        return next((torn for layout in layouts.values() if (torn := layout.torn_entry())), None)
    short = {name: n for name, n in records.items() if n < records[longest]}
    return TruncatedError(
        f"fields are shorter than others ({_listed(short)})",
        path=layouts[shortest].table_path,
        expected=f"{records[longest]} records, as in {longest!r}",
        found=f"{records[shortest]} in {shortest!r}",
        remedy=_RESUME,
    )


def _are_being_written(files: DatasetFiles, n_rows: int) -> bool:
    """True if a writer that appends in place explains the records behind the whole rows: it writes field by field.

    Its journal lies beside `spec.json` until it closes, and says which rows were finished before.
    """
    bag = next(iter(files.columns.values())).bag.local
    journal = StoredJournal.find(journal_path(Path(bag).with_name(SPEC))) if bag is not None else None
    return journal is not None and max(journal.bases[1::2], default=0) <= ENTRY_BYTES * n_rows


def _rest_of_refs(files: DatasetFiles, n_rows: int) -> FormatError | None:
    """Return the error of a `refs.bag` that has fewer rows than the fields have records.

    If only some fields have more records than rows, their own tables may be wrong: `RowIndex.limits` refuses them.
    """
    assert files.refs is not None  # generations 1 and 2; for the type checker
    held = held_records(files)
    plain = {name: n for name, n in held.items() if not is_sequence(files.spec[name])}
    longer = {name: n for name, n in (plain if n_rows else held).items() if n > n_rows}
    agree = len(longer) == len(plain) > 1 and len({*plain.values()}) == 1
    if not longer or (n_rows and not agree):
        return None
    longest = max(longer, key=longer.__getitem__)
    return TruncatedError(
        f"refs.bag has fewer rows than the fields have records ({_listed(longer)})",
        path=files.refs.name,
        expected=f"{longer[longest]} rows, as {longest!r} has",
        found=n_rows,
    )


def held_records(files: DatasetFiles) -> dict[str, int]:
    """Return the number of records of each field whose bag has a table."""
    local = all(column.bag.local is not None for column in files.columns.values())
    held = zip(files.columns, concurrent_map(_held, list(files.columns.values()), local=local), strict=True)
    return {name: n for name, n in held if n is not None}


def _held(column: ColumnFiles) -> int | None:
    try:
        return layout_of(column.bag, None).n_records
    except FormatError:
        return None  # reading the field raises it
    finally:
        column.bag.release()


def _listed(records: Mapping[str, int]) -> str:
    shown = [f"{name!r} has {n}" for name, n in list(records.items())[:_SHOWN]]
    return ", ".join(shown) + (f", and {len(records) - len(shown)} more" if len(records) > len(shown) else "")
