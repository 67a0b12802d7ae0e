"""The lists of TFRecord's and OFRecord's features, and the list for each number type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

MISSING, BYTES, FLOATS, INTEGERS, DOUBLES, INT32S = range(6)
"""Kinds of features: no list, and the lists."""

KINDS: dict[str | None, int] = {
    None: MISSING,
    "bytes_list": BYTES,
    "float_list": FLOATS,
    "int64_list": INTEGERS,
    "double_list": DOUBLES,
    "int32_list": INT32S,
}
"""The kind of each field in the messages called `Feature`."""

KIND_TYPES = {BYTES: "bytes", FLOATS: "float32", INTEGERS: "int64", DOUBLES: "float64", INT32S: "int32"}
"""The type of one value of a list."""

KIND_DTYPES = {kind: np.dtype(name).newbyteorder("<") for kind, name in KIND_TYPES.items() if kind != BYTES}
"""The dtype of the values of a list of numbers."""

_SMALL = ("bool", "int8", "int16", "int32", "uint8", "uint16")
_LARGE = ("int64", "uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of one format.

    Attributes:
        numbers: Kind to its field number in `Feature`.
        of: Number type to the list that holds its values; other types are stored as bytes.
    """

    numbers: Mapping[int, int]
    of: Mapping[str, int]

    def for_type(self, codec: str, of_scalars: bool) -> int:
        """Return the list for a number type; arrays need a list of exactly their type, else they are `BYTES`."""
        kind = self.of.get(codec, BYTES)
        return kind if of_scalars or codec == KIND_TYPES[kind] else BYTES

    def for_dtype(self, name: str) -> int:
        """Return the list of numbers for a dtype that a spec does not name."""
        return self.of.get(name, FLOATS)


EXAMPLE_LISTS = Lists(
    {BYTES: 1, FLOATS: 2, INTEGERS: 3},
    {"float32": FLOATS, **dict.fromkeys((*_SMALL, *_LARGE), INTEGERS)},
)
"""The lists of `tensorflow.Feature`."""

OFRECORD_LISTS = Lists(
    {BYTES: 1, FLOATS: 2, DOUBLES: 3, INT32S: 4, INTEGERS: 5},
    {"float32": FLOATS, "float64": DOUBLES, **dict.fromkeys(_SMALL, INT32S), **dict.fromkeys(_LARGE, INTEGERS)},
)
"""The lists of `oneflow.Feature`."""
