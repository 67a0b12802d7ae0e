"""The values of MDS, MosaicML streaming's format, for which no other codec has the bytes: `mds(ENCODING)`.

The encodings are `ndarray`, `ndarray:DTYPE`, `str_int`, `str_float`, `str_decimal`, `pil`, `jpegarray`, `jpeg_array`,
`list[jpeg]`, `list[png]` and `list[pil]`, as of mosaicml-streaming 0.13, `streaming/base/format/mds/encodings.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.codecs.images import JPG, PNG
from dataformats.errors import SpecError
from dataformats.interfaces import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray

NDARRAY_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
"""The dtypes of arrays, by the byte that names each."""

_DTYPE_BYTES = {dtype: code for code, dtype in NDARRAY_DTYPES.items()}
_SIZES = ("<u1", "<u2", "<u4", "<u8")  # dtypes of a shape
_PICTURE = Struct("<III")  # width, height, bytes of the mode
_MAX_PIXELS = 2**27
_MODES = {
    "L": ("u1", 1),
    "P": ("u1", 1),
    "LA": ("u1", 2),
    "RGB": ("u1", 3),
    "RGBA": ("u1", 4),
    "CMYK": ("u1", 4),
    "YCbCr": ("u1", 3),
    "HSV": ("u1", 3),
    "LAB": ("u1", 3),
    "RGBX": ("u1", 4),
    "I;16": ("<u2", 1),
    "I": ("<i4", 1),
    "F": ("<f4", 1),
}
"""The modes of Pillow: dtype and channels of a pixel. Mode `1` has 8 pixels in a byte."""


class _Mds(Codec):
    """Values of one encoding of MDS.

    Args:
        encoding: The encoding; `""` before `with_args`.
    """

    name = "mds"

    def __init__(self, encoding: str = "") -> None:
        self._encoding = encoding

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec of an encoding, as in `mds(ndarray:int32)`."""
        if not args:
            return self
        encoding = ",".join(args)
        name, _, dtype = encoding.partition(":")
        if encoding not in _CODERS and not (name == "ndarray" and dtype in _DTYPE_BYTES):
            known = ", ".join([*_CODERS, "ndarray:int32"])
            raise SpecError(f"unknown encoding of mds: expected one of {known}, found {encoding!r}")
        return _Mds(encoding)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value of the encoding."""
        name, _, dtype = self._encoding.partition(":")
        return _encode_array(value, dtype) if name == "ndarray" else self._coder[0](value)

    def decode(self, blob: bytes) -> Any:
        """Return an array, an integer, a float, a `Decimal`, or a list of pictures as arrays."""
        name, _, dtype = self._encoding.partition(":")
        return _decode_array(bytes(blob), dtype) if name == "ndarray" else self._coder[1](bytes(blob))

    @property
    def _coder(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        if self._encoding not in _CODERS:
            raise SpecError("mds needs an encoding, as in mds(ndarray)")
        return _CODERS[self._encoding]


def _encode_array(value: Any, dtype: str) -> bytes:
    array = value if isinstance(value, np.ndarray) or not dtype else np.asarray(value, dtype)
    if not isinstance(array, np.ndarray) or array.dtype.name not in ([dtype] if dtype else _DTYPE_BYTES):
        expected = dtype or ", ".join(_DTYPE_BYTES)
        raise TypeError(f"expected an array of {expected}, found {getattr(array, 'dtype', type(array).__name__)}")
    if not 1 <= array.ndim < 64:
        raise ValueError(f"expected 1 to 63 dimensions, found {array.ndim}")
    width = next(at for at, bits in enumerate((8, 16, 32, 64)) if max(array.shape) < 2**bits)
    head = b"" if dtype else bytes([_DTYPE_BYTES[array.dtype.name]])
    shape = np.array(array.shape, _SIZES[width]).tobytes()
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return head + bytes([array.ndim << 2 | width]) + shape + data


def _decode_array(blob: bytes, dtype: str) -> NDArray[Any]:
    at = 0 if dtype else 1
    found = dtype or NDARRAY_DTYPES.get(blob[0], "")
    if not found:
        raise ValueError(f"unknown dtype {blob[0]}: expected one of {', '.join(map(str, NDARRAY_DTYPES))}")
    n_dims, width = blob[at] >> 2, blob[at] & 3
    begin = at + 1 + (n_dims << width)
    if begin > len(blob):
        raise ValueError("the bytes end in the shape")
    shape = np.frombuffer(blob, _SIZES[width], n_dims, at + 1).tolist()
    array = np.frombuffer(blob[begin:], np.dtype(found).newbyteorder("<"))
    if not n_dims or math.prod(shape) != len(array):
        raise ValueError(f"expected {math.prod(shape)} numbers for the shape {shape}, found {len(array)}")
    return array.reshape(shape).copy()


def _encode_picture(value: Any) -> bytes:
    array = np.asarray(value)
    channels = array.shape[2] if array.ndim == 3 else 1
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}.get(channels)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or mode is None or not array.size:
        raise TypeError(f"expected uint8 (h, w) or (h, w, 2 to 4), found {array.dtype}{list(array.shape)}")
    return _PICTURE.pack(array.shape[1], array.shape[0], len(mode)) + mode.encode() + array.tobytes()


def _decode_picture(blob: bytes) -> NDArray[Any]:
    width, height, n_mode = _PICTURE.unpack_from(blob)
    mode = blob[_PICTURE.size : _PICTURE.size + min(n_mode, 16)].decode()
    data = blob[_PICTURE.size + n_mode :]
    if width * height > _MAX_PIXELS:
        raise ValueError(f"expected at most {_MAX_PIXELS} pixels, found {width} x {height}")
    if mode == "1":
        rows = np.frombuffer(data, np.uint8).reshape(height, -(-width // 8))
        return np.unpackbits(rows, axis=1, count=width) * np.uint8(255)
    if mode not in _MODES:
        raise ValueError(f"unknown mode {mode!r}: expected one of {', '.join(_MODES)}")
    dtype, channels = _MODES[mode]
    shape = (height, width, channels) if channels > 1 else (height, width)
    if len(data) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"expected {width} x {height} pixels of mode {mode}, found {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _list_coder(
    encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], head: bytes
) -> tuple[Callable[[Any], bytes], Callable[[bytes], list[Any]]]:
    """Return the functions of a list: a head, the number of items, the size of each, and the items."""
    first = len(head)

    def encode_list(values: Any) -> bytes:
        items = list(map(encode, values))
        return b"".join([head, np.array([len(items), *map(len, items)], "<u4").tobytes(), *items])

    def decode_list(blob: bytes) -> list[Any]:
        count = int.from_bytes(blob[first : first + 4], "little")
        begin = first + 4 + 4 * count
        if len(blob) < begin:
            raise ValueError(f"expected the sizes of {count} items, found {len(blob)} bytes")
        sizes = np.frombuffer(blob, "<u4", count, first + 4) if count else np.zeros(0, np.int64)
        ends = [begin, *(begin + np.cumsum(sizes.astype(np.int64))).tolist()]
        if ends[-1] != len(blob):
            raise ValueError(f"expected {ends[-1]} bytes, found {len(blob)}")
        return [decode(blob[start:stop]) for start, stop in itertools.pairwise(ends)]

    return encode_list, decode_list


def _number_coder(kind: type, parse: Callable[[str], Any]) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    def encode_number(value: Any) -> bytes:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
        return str(value).encode()

    return encode_number, lambda blob: parse(blob.decode())


_CODERS: Mapping[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "ndarray": (lambda value: _encode_array(value, ""), lambda blob: _decode_array(blob, "")),
    "str_int": _number_coder(int, int),
    "str_float": _number_coder(float, float),
    "str_decimal": _number_coder(Decimal, Decimal),
    "pil": (_encode_picture, _decode_picture),
    "jpegarray": _list_coder(JPG.encode, JPG.decode, b""),
    "jpeg_array": _list_coder(JPG.encode, JPG.decode, b""),
    "list[jpeg]": _list_coder(JPG.encode, JPG.decode, bytes(4)),
    "list[png]": _list_coder(PNG.encode, PNG.decode, bytes(4)),
    "list[pil]": _list_coder(_encode_picture, _decode_picture, bytes(4)),
}

MDS = _Mds()
"""Values of MDS; each use names an encoding."""
