"""What a read returns: stored blobs, columns, and the batch of records made of them."""

from __future__ import annotations

from dataformats.batch.record_batch import (
    Blobs,
    Column,
    Nullable,
    Ragged,
    RecordBatch,
    StackedList,
    concat_columns,
    described,
    take_column,
)

__all__ = [
    "Blobs",
    "Column",
    "Nullable",
    "Ragged",
    "RecordBatch",
    "StackedList",
    "concat_columns",
    "described",
    "take_column",
]
