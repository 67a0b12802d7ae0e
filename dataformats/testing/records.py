"""The records of the suite: computed from their index by short formulas, compared without the code under test."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dataformats.spec import NUMBER_TYPES
from dataformats.testing.case import FormatCase

KINDS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "int64[3]", "uint8[2,3]", "float32[2,2]", "float64[4]", "bool[3]"),
    *("int64[]", "uint8[]", "float32[]", "float64[]", "bool[]", "float32[][2]", "uint16[][2,2]", "int32[2]?"),
    *("int64?", "float32?", "bool?", "utf8?", "bytes?", "json?", "bytes", "utf8", "json", "msgpack"),
    *("bytes[]", "utf8[]", "utf8[2]", "json[]", "png", "png[]", "jpg", "jpg[]"),
)
"""The types that are written and read back."""


def blob(index: int, max_bytes: int = 200) -> bytes:
    """Return the bytes of record `index`, up to `max_bytes`; every fifth is empty."""
    length = 0 if index % 5 == 4 else (index * 37 + 11) % max_bytes
    seed = hashlib.blake2b(index.to_bytes(8, "little")).digest()
    return (seed * (length // len(seed) + 1))[:length]


def plain_spec(case: FormatCase) -> dict[str, str] | None:
    """Return the spec of the records that most tests use: no value in them is empty. `None` for documents.

    A format with fixed fields has the spec of its case.
    """
    if case.spec is not None:
        return dict(case.spec)
    return None if case.documents else {"id": "int64", "data": "utf8" if "bytes" in case.refuses else "bytes"}


def plain_record(case: FormatCase, index: int) -> dict[str, Any]:
    """Return record `index` of the spec `plain_spec`."""
    if case.spec is not None:
        return {name: _fixed(kind, int(index)) for name, kind in case.spec.items()}
    data = blob(int(index), 40) or b"."
    text = case.documents or "bytes" in case.refuses
    return {"id": int(index) ** 2 - 5, "data": data.hex()[: len(data)] if text else data}


def index_of(case: FormatCase, record: Mapping[str, Any]) -> int:
    """Return the index of a plain record."""
    if case.spec is None:
        return math.isqrt(int(record["id"]) + 5)
    first = record[next(iter(case.spec))]
    return int(first) if isinstance(first, str | bytes) else int(np.ravel(first)[0])


def _fixed(kind: str, index: int) -> Any:
    """Return a value of a fixed field, which is not empty and begins with the index if its type has room for that."""
    codec, bracket, dims = kind.partition("[")
    if codec in ("utf8", "bytes"):
        return str(index) if codec == "utf8" else str(index).encode()
    if codec not in NUMBER_TYPES:
        return value(kind, index)
    shape = _shape(bracket + dims, index + 2)
    numbers = (index + np.arange(math.prod(shape) or 1) * 3).astype(codec)
    return numbers.reshape(shape if 0 not in shape else (-1, *shape[1:])) if bracket else numbers[0].item()


def value(kind: str, index: int) -> Any:
    """Return the value of record `index` in a field of type `kind`; `None`: missing."""
    if kind.endswith("?"):
        return None if index % 3 == 1 else value(kind[:-1], index)
    codec, bracket, dims = kind.partition("[")
    if codec in _ELEMENTS:
        return _sequence(codec, bracket + dims, index)
    shape = _shape(bracket + dims, index)
    n = math.prod(shape)
    numbers = np.array([_number(codec, index * 7 + at) for at in range(n)], codec).reshape(shape)
    return numbers if shape or bracket else numbers[()].item()


def values(kind: str, n: int, empty: bool = True) -> list[Any]:
    """Return `n` values of a type; `None`: missing. Without empty values if `empty` is False."""
    found = (value(kind, index) for index in itertools.count())
    return list(itertools.islice((held for held in found if empty or not _has_empty(held)), n))


def _has_empty(held: Any) -> bool:
    return any(map(_has_empty, held)) if isinstance(held, list) else isinstance(held, str | bytes) and not held


def is_same_value(left: Any, right: Any) -> bool:
    """True if two values are the same: types, dtypes, shapes, bits; all NaNs are equal."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        alike = left.dtype == right.dtype and left.shape == right.shape
        return alike and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(is_same_value(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(is_same_value, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and bool(left == right)


def _number(codec: str, seed: int) -> Any:
    if codec == "bool":
        return seed % 3 == 0
    if codec.startswith("float"):
        if seed % 11 == 4:
            return (math.nan, math.inf, -math.inf, -0.0)[seed // 11 % 4]
        return np.dtype(codec).type((seed - 40) * 0.37)
    limits = np.iinfo(codec)
    most = min(int(limits.max), 2**63 - 1)  # an Int64List holds no more
    return (int(limits.min), most, 0, 1)[seed % 4] if seed % 5 == 0 else seed * 13 % (most + 1)


def _shape(dims: str, index: int) -> tuple[int, ...]:
    if not dims:
        return ()
    first, _, rest = dims[1:].partition("]")
    inner = tuple(int(size) for size in rest.strip("[]").split(",") if size)
    return (*((index * 3 % 5,) if not first else (int(size) for size in first.split(","))), *inner)


def _sequence(codec: str, dims: str, index: int) -> Any:
    if not dims:
        return _ELEMENTS[codec](index)
    return [_ELEMENTS[codec](index * 5 + at) for at in range(_shape(dims, index)[0])]


def _document(index: int) -> Any:
    return {"n": index, "list": [index, None, True, "é" * (index % 4)], "inner": {"x": index / 4}}


def _pixels(index: int) -> Any:
    height, width = 2 + index % 3, 3 + index % 2
    return ((np.arange(height * width * 3) * 3 + index) % 256).astype(np.uint8).reshape(height, width, 3)


def _flat(index: int) -> Any:
    # One grey: JPEG keeps it at any quality.
    return np.full((8, 8), 16 * (index % 16), np.uint8)


_ELEMENTS: dict[str, Any] = {
    "bytes": lambda index: blob(index, 30),
    "utf8": lambda index: "añ€😀"[: index % 5] + str(index % 3) * (index % 4),
    "json": _document,
    "msgpack": lambda index: {**_document(index), "bytes": blob(index, 9)},
    "png": _pixels,
    "jpg": _flat,
}
