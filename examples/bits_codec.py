"""A codec: arrays of bools of a declared shape, eight to a byte. `bits(28,28)` is the type of a mask of 28 by 28.

docs/extending.md explains it, and tests/contract/test_extending.py runs it through the conformance suite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataformats import SpecError
from dataformats.interfaces import Blobs, Codec, Column, codecs

Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Bits(Codec):
    """Bools of one shape, packed; the first one is the highest bit of the first byte.

    Args:
        shape: The shape of every array.
    """

    name = "bits"

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self._shape = shape
        self._n_bits = math.prod(shape)
        self._n_bytes = (self._n_bits + 7) // 8

    def with_args(self, args: Sequence[str]) -> Bits:
        if not args or not all(arg.isdecimal() and 0 < len(arg) <= 9 for arg in args):
            raise SpecError(f"codec 'bits' needs a shape, as bits(28,28); found ({','.join(args)})")
        return Bits(tuple(map(int, args)))

    def encode(self, value: Any) -> bytes:
        array = np.asarray(value)
        if array.dtype != np.bool_ or array.shape != self._shape:
            raise ValueError(f"expected bools of shape {self._shape}, found {array.dtype} of shape {array.shape}")
        return np.packbits(array).tobytes()

    def decode(self, blob: bytes) -> Bools:
        # The length of the blob is checked before memory for the array is allocated.
        if len(blob) != self._n_bytes:
            raise ValueError(f"expected {self._n_bytes} bytes for shape {self._shape}, found {len(blob)}")
        mask: Bools = self._unpacked(np.frombuffer(blob, np.uint8)[None])[0]
        return mask

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a dense column (B, *shape) in one call: what `decode` gives, row by row."""
        if (blobs.lengths != self._n_bytes).any():
            return super().decode_batch(blobs)  # raises for the blob at fault
        return self._unpacked(blobs.rows(self._n_bytes))

    def _unpacked(self, rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Bools:
        bits = np.unpackbits(rows, axis=1, count=self._n_bits)
        return bits.view(np.bool_).reshape(len(rows), *self._shape)


def register() -> None:
    """Make the codec known to this process."""
    codecs.register("bits", Bits(), replace=True)
