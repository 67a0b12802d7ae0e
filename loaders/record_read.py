"""Read records of one source, or of several, as one batch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import RecordBatch
from dataformats.errors import SpecError
from dataformats.loaders.adapters import Readable
from dataformats.reading.concat import interleave
from dataformats.reading.source import OnCorrupt

__all__ = ["DecodeFields", "describe_record", "read_records"]

_Numbers = NDArray[np.int64]
_Failures = list[tuple[int, Exception]]

DecodeFields = Callable[[Readable, RecordBatch, _Numbers], RecordBatch]
"""Decodes fields of the records of a source, given the rows that they are of all indices that are read."""


def read_records(
    sources: Sequence[Readable],
    component: _Numbers | None,
    indices: _Numbers,
    on_corrupt: OnCorrupt,
    decode: DecodeFields | None = None,
) -> tuple[RecordBatch, _Numbers | None, _Failures]:
    """Return the records at these indices, in this order, with the damaged ones left out if `on_corrupt="omit"`.

    Args:
        sources: The components of a plan, all with the same spec.
        component: int64[n], the source of each record; `None`: all are of the first one.
        indices: int64[n], the index of each record in its source.
        on_corrupt: Whether a damaged record raises.
        decode: Decodes fields whose stored bytes the sources give.

    Returns:
        The records; int64[m], the rows of `indices` that they are, ascending, or `None` for all; and the records that
        were left out, as (row of `indices`, error), ascending.

    Raises:
        SpecError: The sources differ in their fields.
    """
    parts = [0] if component is None else np.unique(component).tolist() or [0]
    if len(parts) == 1:
        return _read_one(sources[parts[0]], indices, np.arange(len(indices)), on_corrupt, decode)
    batches, rows_of_part, failures = [], [], []
    for part in parts:
        rows = np.flatnonzero(component == part)
        batch, present, failed = _read_one(sources[part], indices[rows], rows, on_corrupt, decode)
        batches.append(batch)
        rows_of_part.append(rows if present is None else rows[present])
        failures += [(int(rows[row]), error) for row, error in failed]
    _check_fields(parts, batches)
    columns, present = interleave([batch.columns for batch in batches], rows_of_part)
    failures.sort(key=operator.itemgetter(0))
    return RecordBatch(columns, indices[present], {}, batches[0].single), present, failures


def describe_record(source: Readable, index: int) -> str:
    """Return the name of a record, with its file if that is known: `"record 17 of 'a.tfrecord'"`."""
    origin = source.origin(index)
    return f"record {index}" if origin is None else f"record {origin[1]} of {origin[0]!r}"


def _read_one(
    source: Readable, indices: _Numbers, rows: _Numbers, on_corrupt: OnCorrupt, decode: DecodeFields | None
) -> tuple[RecordBatch, _Numbers | None, _Failures]:
    batch = source.read(indices, on_corrupt=on_corrupt)
    if decode is not None:
        batch = decode(source, batch, rows[~np.isin(indices, list(batch.failed))] if batch.failed else rows)
    if not batch.failed:
        return batch, None, []
    failures = [(row, batch.failed[index]) for row, index in enumerate(indices.tolist()) if index in batch.failed]
    return batch, np.flatnonzero(~np.isin(indices, list(batch.failed))), failures


def _check_fields(components: list[int], batches: list[RecordBatch]) -> None:
    fields = [None if batch.single else sorted(batch.columns) for batch in batches]
    for component, found in zip(components, fields, strict=True):
        if found != fields[0]:
            raise SpecError(
                f"components of the mixture differ: component {components[0]} has {_described(fields[0])}, "
                f"component {component} has {_described(found)}",
                remedy="Make them alike with select() or map() before mix()",
            )


def _described(fields: list[str] | None) -> str:
    return "single values" if fields is None else f"the fields {fields}"
