"""The records of a source as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataformats.batch.arrow import pyarrow, to_arrow
from dataformats.batch.arrow_types import arrow_schema, type_for_arrow
from dataformats.errors import DataFormatsError
from dataformats.reading.scan import scan_by_reading
from dataformats.reading.source import Fields, RecordSource

__all__ = ["arrow_reader"]

_JOINED_BYTES = 2**20
_JOINED_RECORDS = 8000


def arrow_reader(source: RecordSource, batch_size: int | None, fields: Fields, media_structs: bool) -> Any:
    """Return a lazy `pyarrow.RecordBatchReader`: see `RecordSource.to_batches`."""
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, found {batch_size}")
    names = list(source.mask(fields))
    spec = source.spec.select(names)
    read_as = {name: type_for_arrow(kind) for name, kind in spec.items()}
    if spec != read_as:
        source = source.with_spec({**source.spec, **read_as})
    schema = arrow_schema(spec, media_structs=media_structs)
    batches = _batches(source, batch_size, names, schema)
    return pyarrow().RecordBatchReader.from_batches(schema, _joined(batches) if batch_size is None else batches)


def _batches(source: RecordSource, batch_size: int | None, names: list[str], schema: Any) -> Iterator[Any]:
    if batch_size is None:
        found = source.scan(names)
    else:
        n = len(source)
        parts = (range(first, min(first + batch_size, n)) for first in range(0, n, batch_size))
        found = scan_by_reading(source, parts, names)
    for batch in found:
        arrays = [to_arrow(batch.columns[field.name], field.type) for field in schema]
        yield pyarrow().RecordBatch.from_arrays(arrays, schema=schema)


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches of some thousand records or a megabyte: each costs other programs 0.1 ms, however small.

    The first ones are smaller, for queries that end after some records.
    """
    waiting: list[Any] = []
    n = n_bytes = most = 0
    try:
        for batch in batches:
            waiting.append(batch)
            n, n_bytes = n + batch.num_rows, n_bytes + batch.nbytes
            if n > most or n_bytes > _JOINED_BYTES:
                yield _one(waiting)
                most = min(2 * n, _JOINED_RECORDS)
                waiting, n, n_bytes = [], 0, 0
    except DataFormatsError:
        if waiting:
            yield _one(waiting)
        raise
    if waiting:
        yield _one(waiting)


def _one(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pyarrow().Table.from_batches(batches).combine_chunks().to_batches()[0]
