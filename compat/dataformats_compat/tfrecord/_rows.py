"""Batches of Examples and SequenceExamples as dicts, one or two a record, with the values of the `tfrecord` package."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.internals import BYTES, MISSING, STEPS, FeatureColumn, Shape, find_columns, maps_of, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Kinds", "decode_rows", "plain_value"]

Kinds = Mapping[str, int | None]
"""The features of one part of a record to decode, and the kind that each must have; `None`: any."""

Row = dict[str, Any]


def plain_value(value: Any) -> Any:
    """Return the values of a feature: a new array of numbers, the only bytes value, or an array of several or none.

    numpy's bytes dtype drops NULs at the end of a value, so values with such NULs are in an array of objects.
    """
    if not isinstance(value, list):
        return None if value is None else value.copy()
    if len(value) == 1:
        return value[0]
    if not any(item.endswith(b"\0") for item in value):
        return np.array(value, dtype=bytes)
    array = np.empty(len(value), object)
    array[:] = value
    return array


def decode_rows(
    shape: Shape, message: Any, blobs: Blobs, kinds: Sequence[Kinds | None]
) -> list[tuple[Row, ...] | None]:
    """Return the dicts of each record, one for each part; `None` for a record that is not as `kinds` says.

    Args:
        shape: The message type of the records.
        message: Its protobuf class.
        blobs: The records, at least one.
        kinds: The features to decode, for each part; `None` decodes all features of a record.

    Raises:
        CorruptRecordError: A record does not parse.
    """
    found = _find(shape, message, blobs, kinds)
    rows: list[tuple[Row, ...] | None] = [*zip(*(_rows(columns, len(blobs)) for columns in found), strict=True)]
    for columns, wanted in zip(found, kinds, strict=True):
        for name, column in columns.items():
            for row in () if wanted is None else _misfits(column, wanted[name]):
                rows[row] = None
    return rows


def _find(shape: Shape, message: Any, blobs: Blobs, kinds: Sequence[Kinds | None]) -> list[dict[str, FeatureColumn]]:
    """Return the features of each part by name; those that any record has, if none are named."""
    seen: set[tuple[int, str]] = set()

    def add_names(record: Any, _: int = 0) -> None:
        seen.update((part, name) for part, entries in enumerate(maps_of(shape, record)) for name in entries)

    named = [(part, name) for part, wanted in enumerate(kinds) for name in wanted or ()]
    if None in kinds:
        add_names(parse(message, blobs.view(0), 0))
    while True:  # once more if later records have other names than the first
        wanted = [*named, *sorted(pair for pair in seen if kinds[pair[0]] is None)]
        known = frozenset(seen.union(wanted)) if None in kinds else None
        columns = find_columns(shape, message, blobs, wanted, known=known, check=add_names)
        if known is None or seen <= known:
            break
    found: list[dict[str, FeatureColumn]] = [{} for _ in kinds]
    for (part, name), column in zip(wanted, columns, strict=True):
        found[part][name] = column
    return found


def _rows(columns: Mapping[str, FeatureColumn], n: int) -> list[Row]:
    """Return the features that each of n records has."""
    if not columns:
        return [{} for _ in range(n)]
    values = [_values(column) for column in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    for name, column in columns.items():
        for row in () if column.complete else np.flatnonzero(column.kinds <= MISSING).tolist():
            del rows[row][name]
    return rows


def _values(column: FeatureColumn) -> list[Any]:
    """Return the values of each record, or a list of them for a feature list; `None` if it has none."""
    if column.held == 1 << BYTES + 1 and column.fewest == column.most == 1:
        return list(column.blobs())
    if not column.holds(STEPS):
        return [plain_value(value) for value in column.values()]
    steps = iter(_values(column.steps()))
    return [list(itertools.islice(steps, count)) for count in column.counts.tolist()]


def _misfits(column: FeatureColumn, kind: int | None) -> list[int]:
    """Return the records that lack a feature, or have one of another kind."""
    if kind is not None and column.held == 1 << kind + 1:
        return []
    if column.holds(STEPS):
        steps = column.steps()
        of_record = np.repeat(np.arange(len(column)), column.counts)
        lacking = np.flatnonzero(column.kinds != STEPS)
        return [*lacking.tolist(), *of_record[_wrong(steps, kind)].tolist()]
    return np.flatnonzero(_wrong(column, kind)).tolist()


def _wrong(column: FeatureColumn, kind: int | None) -> NDArray[np.bool_]:
    return column.kinds <= MISSING if kind is None else column.kinds != kind
