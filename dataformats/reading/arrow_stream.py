"""The records of a source as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dataformats.batch import Blobs, Ragged, RecordBatch
from dataformats.batch.arrow_types import arrow_schema, type_for_arrow
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError, SpecError
from dataformats.interfaces.record_source import Fields, RecordSource
from dataformats.reading.scan import scan_by_reading
from dataformats.spec import Type

_JOINED_BYTES = 2**20
_JOINED_RECORDS = 8000


def arrow_reader(source: RecordSource, batch_size: int | None, fields: Fields, media_structs: bool) -> Any:
    """Return a lazy `pyarrow.RecordBatchReader`: see `RecordSource.to_batches`."""
    rows = ArrowRows(source, fields, media_structs=media_structs)
    found = rows.source.scan(rows.schema.names)
    if batch_size is not None:
        parts_of(0, batch_size)  # refuses sizes below 1
        n_together = max(1, int(_JOINED_BYTES / max(1.0, source.record_bytes() * batch_size)))
        found = scan_by_reading(rows.source, rows.schema.names, parts_of(len(source), n_together * batch_size))
    batches = (pyarrow().RecordBatch.from_arrays(rows.arrays(batch), schema=rows.schema) for batch in found)
    resized = join_batches(batches) if batch_size is None else _split_batches(batches, batch_size)
    return pyarrow().RecordBatchReader.from_batches(rows.schema, resized)


def parts_of(n: int, batch_size: int) -> Iterator[range]:
    """Return an iterator of the numbers of `n` records, `batch_size` at a time."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, found {batch_size}")
    return (range(first, min(first + batch_size, n)) for first in range(0, n, batch_size))


class ArrowRows:
    """How batches of a source become Arrow arrays.

    Args:
        source: The records.
        fields: See `RecordSource.read`.
        media_structs: See `RecordSource.to_batches`.

    Attributes:
        source: The source to read batches of.
        schema: Its fields, as a `pyarrow.Schema`.
    """

    def __init__(self, source: RecordSource, fields: Fields, *, media_structs: bool = False) -> None:
        spec = source.spec.select(source.mask(fields))
        read_as = {name: type_for_arrow(kind) for name, kind in spec.items()}
        self._computed: dict[str, Type] = {}
        if spec != read_as:
            try:
                source = source.with_spec(read_as)
            except SpecError:  # a source of the caller's own, which stores no bytes
                self._computed = {name: kind for name, kind in spec.items() if kind != read_as[name]}
                if any(kind.dims for kind in self._computed.values()):
                    raise
        self.source = source
        self.schema: Any = arrow_schema(spec, media_structs=media_structs)

    def arrays(self, batch: RecordBatch) -> list[Any]:
        """Return the columns of a batch of `source`, in the order of `schema`."""
        encoded = {name: _encoded(batch.columns[name], kind) for name, kind in self._computed.items()}
        columns = {**batch.columns, **encoded}
        return [to_arrow(columns[field.name], field.type) for field in self.schema]


def _encoded(column: Any, type_: Type) -> Ragged:
    """Return the bytes of values that no file stores."""
    codecs = CodecResolver(trusted=True)
    blobs = [b"" if value is None else codecs.encode(type_.required, value)[0] for value in column]
    present = np.array([value is not None for value in column], np.bool_)
    return Ragged(*Blobs.join(blobs).contiguous(), "bytes", present)


def _split_batches(batches: Iterator[Any], batch_size: int) -> Iterator[Any]:
    for batch in batches:
        yield from (batch.slice(part.start, len(part)) for part in parts_of(batch.num_rows, batch_size))


def join_batches(batches: Iterator[Any]) -> Iterator[Any]:
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
