"""The Arrow types of fields. They follow from the spec alone, whatever records a batch holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import SpecError
from dataformats.spec import ML_TYPES, NUMBER_TYPES, Type

MEDIA = ("jpg", "jpeg", "png", "webp", "mp4", "webm", "audio")
"""The codecs whose blobs are files of a standard that other programs decode."""

_READ_AS_BYTES = "Read the field as bytes, with with_spec()"
_INTEGERS = ("int", "i64", "u64")
_READ = (*NUMBER_TYPES, *ML_TYPES, *_INTEGERS, "bytes", "utf8", "array", "npy")


def type_for_arrow(type_: Type) -> Type:
    """Return the type that a field is read with: `bytes` if Arrow has no type for the values."""
    return type_ if type_.codec in _READ else replace(type_, codec="bytes", args=())


def arrow_schema(spec: Mapping[str, Type], *, media_structs: bool = False) -> Any:
    """Return the `pyarrow.Schema` of these fields; a field is nullable if its type is optional.

    Args:
        spec: Field to type.
        media_structs: Images, videos and sounds are the structs of Hugging Face, `{bytes, path}`, instead of binary.

    Raises:
        MissingExtraError: pyarrow is not installed.

    Example:
        >>> from dataformats import Spec
        >>> from dataformats.batch.arrow_types import arrow_schema
        >>> arrow_schema(Spec({"photo": "jpg", "boxes": "float32[][4]", "label": "int64?"}))
        photo: large_binary not null
        boxes: large_list<item: fixed_size_list<item: float>[4]> not null
          child 0, item: fixed_size_list<item: float>[4]
              child 0, item: float
        label: int64
    """
    arrow = pyarrow()
    fields = [
        arrow.field(name, arrow_type(kind, media_structs=media_structs), nullable=kind.optional)
        for name, kind in spec.items()
    ]
    return arrow.schema(fields)


def arrow_type(type_: Type, *, media_structs: bool = False) -> Any:
    """Return the `pyarrow.DataType` of a field: see `arrow_schema`."""
    arrow = pyarrow()
    n_lists, sizes = len(type_.dims), cast("tuple[int | None, ...]", ())
    if type_.dtype is not None:
        n_lists = 1 + max((depth for depth, size in enumerate(type_.dims) if size is None), default=-1)
        dtype = np.dtype(np.float32) if type_.codec in ML_TYPES else type_.dtype
        value, sizes = _number_type(dtype, type_.dims[n_lists:])
    elif type_.codec == "array" and type_.args and not type_.shape_fields:
        value, sizes = _number_type(np.dtype(type_.args[0]), tuple(map(int, type_.args[1:])))
    else:
        value = _codec_type(type_, media_structs)
    for size in reversed(sizes):
        if size is not None and size >= 2**31:
            raise SpecError(f"Arrow cannot hold {type_}: expected sizes below 2^31", remedy=_READ_AS_BYTES)
        value = arrow.list_(value, size) if size else arrow.large_list(value)
    for _ in range(n_lists):
        value = arrow.large_list(value)
    return value


def _number_type(dtype: np.dtype[Any], sizes: tuple[int | None, ...]) -> tuple[Any, tuple[int | None, ...]]:
    """Return the type of a number, and the sizes of the lists around it."""
    arrow = pyarrow()
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        return _number_type(half, (*sizes, 2))
    return arrow.binary(dtype.itemsize) if dtype.itemsize > 8 else arrow.from_numpy_dtype(
        dtype.newbyteorder("=")
    ), sizes


def _codec_type(type_: Type, media_structs: bool) -> Any:
    arrow = pyarrow()
    if type_.codec in _INTEGERS:
        return arrow.uint64() if type_.codec == "u64" or "unsigned" in type_.args else arrow.int64()
    if type_.codec in ("utf8", "json"):
        return arrow.large_string()
    if type_.codec in ("array", "npy"):
        shape = arrow.large_list(arrow.int64())
        return arrow.struct({"dtype": arrow.large_string(), "shape": shape, "data": arrow.large_binary()})
    if media_structs and type_.codec in MEDIA:
        return arrow.struct({"bytes": arrow.binary(), "path": arrow.string()})
    return arrow.large_binary()
