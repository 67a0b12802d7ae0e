"""Polars: a lazy scan that reads only the columns and records that a query needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataformats.errors import MissingExtraError
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.opening import open as open_source

try:
    import polars
    from polars.io.plugins import register_io_source
except ImportError as error:
    raise MissingExtraError("dataformats.interop.polars", extra="polars") from error

__all__ = ["scan"]


def scan(source: RecordSource | Any, **options: Any) -> polars.LazyFrame:
    """Return a lazy frame of the records. A query reads only the fields that it uses, and stops at its row limit.

    Args:
        source: A source, or a path as in `open`.
        **options: Arguments of `open`, if `source` is a path.

    Raises:
        MissingExtraError: pyarrow is not installed.
        SpecError: The records have no spec.

    Example:
        >>> import polars as pl
        >>> from dataformats.interop.polars import scan
        >>> digits = scan("tests/golden/real/digits-*.tfrecord")
        >>> digits.filter(pl.col("label") == 3).select("label").collect().height
        183
    """
    given = source if isinstance(source, RecordSource) else open_source(source, **options)

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, *_: Any
    ) -> Iterator[polars.DataFrame]:
        for batch in given.to_batches(fields=columns):
            frame = polars.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= frame.height
            yield frame
            if n_rows == 0:
                return

    schema = polars.DataFrame(given.to_batches().schema.empty_table()).schema
    return register_io_source(read, schema=schema, is_pure=True)
