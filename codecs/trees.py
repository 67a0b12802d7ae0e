"""Granular's `tree`: nested lists and mappings with arrays in them.

MessagePack, in which each array is the list `["_", dtype, shape, bytes]`. A list of four items that begins with `"_"`
is therefore always an array: any other such list is an error, both on writing and on reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgpack
import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.codecs.arrays import array_of, parts_of
from dataformats.codecs.documents import check_document, check_size, unpack
from dataformats.interfaces import Codec

_MARK = "_"
_PARTS = 4  # the mark, dtype, shape, bytes


class _Tree(Codec):
    name = "tree"

    def encode(self, value: Any) -> bytes:
        """Return the packed tree of mappings, lists, arrays, numbers, text, bytes and `None`.

        Tuples come back as lists. Numpy scalars raise: convert them by `item()` or `numpy.asarray`.
        """
        packed = cast("bytes", msgpack.packb(value, use_bin_type=True, default=_marked))
        check_document(value, (str, bytes))
        _check_marks(value)
        return check_size(packed)

    def decode(self, blob: bytes) -> Any:
        """Return the tree, with arrays in separate memory."""
        return unpack(blob, _array_or_list)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a list of trees."""
        return [self.decode(blob) for blob in blobs]


def _marked(value: Any) -> list[Any]:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected mappings, lists, arrays, numbers, text or bytes, found {type(value).__name__}")
    return [_MARK, *parts_of(value)]


def _array_or_list(parts: list[Any]) -> Any:
    # The type first: comparing with an array would give an array.
    if len(parts) == _PARTS and isinstance(parts[0], str) and parts[0] == _MARK:
        return array_of(*parts[1:])
    return parts


def _check_marks(value: Any) -> None:
    """Raise if a list would come back as an array. The nesting was checked before."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            if len(part) == _PARTS and isinstance(part[0], str) and part[0] == _MARK:
                raise ValueError(f"expected no list of {_PARTS} that begins with {_MARK!r}, the mark of an array")
            waiting.extend(part)


TREE = _Tree()
"""Nested lists and mappings with arrays in them."""
