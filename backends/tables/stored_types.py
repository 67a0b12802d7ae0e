"""The types under which files with Arrow's types store values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dataformats.batch.arrow_types import arrow_schema
from dataformats.batch.to_arrow import pyarrow
from dataformats.spec import Spec, Type


def stored_type(kind: Type) -> Type:
    """Return the type that Arrow has: `json` is one; blobs of other codecs, such as images, are stored as `bytes`."""
    if kind.dtype is None:
        return kind if kind.codec in ("bytes", "utf8", "json") else replace(kind, codec="bytes", args=())
    is_known = kind.dtype.kind in "biuf" and kind.dtype.itemsize <= 8 and 0 not in kind.dims
    return kind if is_known else Type("bytes", optional=kind.optional)


def stored_schema(stored: Spec) -> Any:
    """Return the `pyarrow.Schema` of a file. JSON is text that is marked as `arrow.json`, as other programs read it."""
    arrow = pyarrow()
    document = arrow.json_(arrow.large_string())
    schema = arrow_schema(stored)
    for place, kind in enumerate(stored.values()):
        if kind.codec == "json" and not kind.dims:
            schema = schema.set(place, schema.field(place).with_type(document))
    return schema
