"""Arrays of litdata, with dtype and shape in front: `litdata(numpy)` and `litdata(tensor)`.

The layouts of litdata 0.2.76, `litdata/streaming/serializers.py`, have four bytes each for the number of the
dtype, of dimensions, and for each dimension, little-endian for arrays of NumPy and big-endian for tensors. Before
October 2025, they were little-endian for tensors, too, which are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.errors import SpecError
from dataformats.interfaces import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMPY = {
    0: "int8",
    1: "int16",
    2: "int32",
    3: "int64",
    4: "uint8",
    5: "uint16",
    6: "uint32",
    7: "uint64",
    8: "float16",
    9: "float32",
    10: "float64",
    11: "complex64",
    12: "complex128",
    13: "bool",
}
_TENSOR = {
    0: "float32",
    1: "float32",
    2: "float64",
    3: "float64",
    4: "complex64",
    5: "complex64",
    6: "complex128",
    7: "complex128",
    8: "float16",
    9: "float16",
    11: "uint8",
    12: "int8",
    13: "int16",
    14: "int16",
    15: "int32",
    16: "int32",
    17: "int64",
    18: "int64",
    19: "bool",
    20: "uint16",
}
_LAYOUTS = {"numpy": (_NUMPY, "<u4"), "tensor": (_TENSOR, ">u4")}


class _Litdata(Codec):
    """Arrays of one of the two layouts; the last of the numbers of a dtype is written."""

    name = "litdata"

    def __init__(self, layout: str = "") -> None:
        self._layout = layout

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec of `litdata(numpy)` or `litdata(tensor)`."""
        if not args:
            return self
        if len(args) != 1 or args[0] not in _LAYOUTS:
            raise SpecError(f"expected litdata(numpy) or litdata(tensor), found {','.join(args)!r}")
        return _Litdata(args[0])

    def encode(self, value: Any) -> bytes:
        """Return the bytes of an array."""
        dtypes, word = self._facts()
        array = np.asarray(value)
        code = next((code for code, name in dtypes.items() if name == array.dtype.name), None)
        if code is None:
            raise TypeError(f"expected an array of {', '.join(dict.fromkeys(dtypes.values()))}, found {array.dtype}")
        return np.array([code, array.ndim, *array.shape], word).tobytes() + array.tobytes()

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return the array."""
        dtypes, word = self._facts()
        if any(blob[0:5:4]):  # the dtype and the number of dimensions are small
            word = "<u4"
        code, n_dims = np.frombuffer(blob, word, 2).tolist()
        begin = 8 + 4 * n_dims
        if code not in dtypes or begin > len(blob):
            raise ValueError(f"no array: dtype {code}, {n_dims} dimensions in {len(blob)} bytes")
        shape = np.frombuffer(blob, word, n_dims, 8).tolist() if n_dims else []
        dtype = np.dtype(dtypes[code])
        if len(blob) - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"expected {dtype}{shape}, found {len(blob) - begin} bytes")
        if dtype.kind == "b" and max(blob[begin:], default=0) > 1:
            raise ValueError("a bool is neither 0 nor 1")
        return np.frombuffer(blob[begin:], dtype).reshape(shape).copy()

    def _facts(self) -> tuple[dict[int, str], str]:
        if self._layout not in _LAYOUTS:
            raise SpecError("litdata needs a layout, as in litdata(numpy)")
        return _LAYOUTS[self._layout]


LITDATA = _Litdata()
"""Arrays of litdata; each use names the layout."""
