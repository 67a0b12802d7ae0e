"""Values as JSON for programs."""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataformats.batch import Nullable, Ragged, RecordBatch


def as_json(value: Any) -> Any:
    """Return the whole value as JSON: bytes in base64, numbers that are not finite as text.

    Values may nest as deep as codecs allow, so each level costs one call only.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, np.generic) and value.dtype.char in "gG":
        return str(value)  # longer than a number of Python, or of readers of JSON
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return dict(zip(map(str, value), map(as_json, value.values()), strict=True))
    if isinstance(value, (list, tuple)):
        return list(map(as_json, value))
    return value if value is None or isinstance(value, (bool, int, str)) else {"repr": repr(value)}


def batch_as_json(batch: RecordBatch) -> Iterator[Any]:
    """Return the records of a batch as `as_json` gives them, converted by columns: most take no call for a value."""
    columns: dict[str, Any] = {}
    for name, column in batch.columns.items():
        values, present = _column_as_json(column), getattr(column, "present", None)
        columns[name] = values if present is None else Nullable(values, present)
    return iter(RecordBatch(columns, batch.indices, {}, batch.single))


def _column_as_json(column: Any) -> list[Any]:
    if isinstance(column, Nullable):
        return _column_as_json(column.values)
    if isinstance(column, np.ndarray):
        return _array_as_json(column)
    if isinstance(column, Ragged) and column.item_kind == "utf8":
        return list(column)
    if isinstance(column, Ragged) and column.item_kind == "array" and isinstance(column.values, np.ndarray):
        values = _array_as_json(column.values)
        return [values[start:stop] for start, stop in itertools.pairwise(column.offsets.tolist())]
    return list(map(as_json, column))


def _array_as_json(array: np.ndarray[Any, Any]) -> list[Any]:
    kind = array.dtype.kind
    if kind in "biu" or (kind == "f" and array.dtype.itemsize <= 8 and np.isfinite(array).all()):
        values: list[Any] = array.tolist()
        return values
    return list(map(as_json, array))
