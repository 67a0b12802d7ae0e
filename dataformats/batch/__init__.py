"""The results of a read: stored blobs, columns, and the batch of records made of them."""

from dataformats.batch.blobs import Blobs
from dataformats.batch.column_types import (
    Column,
    Nullable,
    Ragged,
    StackedList,
    concat_columns,
    describe_value,
    nbytes_of,
    take_column,
)
from dataformats.batch.record_batch import RecordBatch
from dataformats.batch.row_selection import take_rows
from dataformats.batch.stored_records import StoredRecords

__all__ = [
    "Blobs",
    "Column",
    "Nullable",
    "Ragged",
    "RecordBatch",
    "StackedList",
    "StoredRecords",
    "concat_columns",
    "describe_value",
    "nbytes_of",
    "take_column",
    "take_rows",
]
