"""Arrays of bools, integers, floats and complex numbers: Granular's `array`, and numpy's own `.npy`.

No other dtypes: objects would be pickles, and only numpy reads its dates and texts. The byte order of the file is
kept, so that an array is written back as the same bytes.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from dataformats.batch import Blobs, Column, StackedList
from dataformats.batch.value_slices import SplitBlobs, ValueSlice
from dataformats.columns.codec_resolver import FunctionCodec
from dataformats.columns.exact_cast import DTYPES, to_exact_array
from dataformats.errors import SpecError
from dataformats.interfaces import ArrayCodec, Codec
from dataformats.kernels import buffers
from dataformats.spec import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DIMS = 32
"""The most dimensions: the limit of numpy before 2.0."""

_CODE = re.compile(r"[<>|=]?(b1|[iu][1248]|f(2|4|8|16)|c(8|16|32))")
_NAMES = {**DTYPES, **{name: np.dtype(name).newbyteorder("<") for name in ("complex64", "complex128")}}
_MAX_BYTES = 2**32 - 1  # limit of a bin in MessagePack
_MAX_HEADER = 10_000  # header bytes of a .npy: numpy's limit for ast.literal_eval
_WORDS = 64  # limit of the texts and lists besides the data: a dtype, a shape


class _Array(ArrayCodec):
    """MessagePack of dtype, shape and the bytes in C order."""

    name = "array"

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec of `array`, of `array(float32,64,128)`, as in Granular 0.5, or `array(uint8,height,3)`."""
        if named := Type(self.name, tuple(args)).shape_fields:
            _sizes([size for size in args[1:] if size not in named], args)
            dtype = _named_dtype(args[0], args)  # `ShapedFields` gives these arrays their shape
            return FunctionCodec(self.name, _refuse, lambda blob: _checked_bools(np.frombuffer(blob, dtype)).copy())
        return FixedArray(_named_dtype(args[0], args), _sizes(args[1:], args)) if args else self

    def specialized_for(self, declared: Type) -> Codec:
        """Return a codec that decodes arrays of a declared number type to one array."""
        return self if declared.dtype is None else _Declared(declared.dtype, declared.dims)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of an array or a numpy scalar."""
        array = value if type(value) is np.ndarray else _plain(value)
        head = _head(array.dtype, array.shape)
        return b"".join((head, _data(array)))

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of the rows of one array, or of a list of arrays."""
        rows = values.stacked if isinstance(values, StackedList) else values
        if isinstance(rows, np.ndarray):
            head = np.frombuffer(_head(rows.dtype, rows.shape[1:]), np.uint8)
            data = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
            blobs = buffers.empty(len(rows), len(head) + data.shape[1])
            blobs[:, : len(head)], blobs[:, len(head) :] = head, data
            return Blobs.back_to_back(blobs, np.full(len(blobs), blobs.shape[1], np.int64))
        if not isinstance(rows, list) or not all(type(row) is np.ndarray and row.flags.c_contiguous for row in rows):
            return None
        heads = [_head(row.dtype, row.shape) for row in rows]
        lengths = np.array([len(head) + row.nbytes for head, row in zip(heads, rows, strict=True)], np.int64)
        parts = chain.from_iterable(zip(heads, map(_data, rows), strict=True))
        return Blobs.back_to_back(np.frombuffer(bytearray().join(parts), np.uint8), lengths)

    def decode(self, blob: bytes | memoryview) -> NDArray[Any]:
        """Return the array, a copy."""
        size = len(blob)
        parts = msgpack.unpackb(
            blob,
            raw=False,
            max_str_len=_WORDS,
            max_bin_len=size,
            max_array_len=_WORDS,
            max_map_len=0,
            max_ext_len=0,
        )
        if not isinstance(parts, list) or len(parts) != 3:
            raise ValueError(f"expected a list of dtype, shape and bytes, found {type(parts).__name__}")
        return array_of(*parts)

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return a list of arrays, which may differ in dtype and shape; if they do not, they are rows of one array."""
        width = blobs.lengths.item(0) if len(blobs) > 1 else 0
        values = blobs.packed(width) if width else None
        if values is not None:
            rows = values.reshape(len(blobs), width)
            begin = width - self.decode(blobs.view(0)).nbytes
            column = self._column(_stacked(rows[:, :begin], rows[:, begin:]))
            if column is not None:
                return column
        return [self.decode(blobs.view(row)) for row in range(len(blobs))]

    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return the place of the arrays' data, taken from the first blob."""
        data = self.decode(blobs.view(0)).nbytes
        return ValueSlice(int(blobs.lengths[0]) - data, data) if data and data < blobs.lengths[0] else None

    def decode_split(self, split: SplitBlobs) -> Column | None:
        """Return the rows of one array, if all blobs have the same header."""
        blobs, (begin, n_bytes) = split.blobs, split.value_slice
        values = blobs.packed(begin + n_bytes) if begin >= 0 and len(blobs) else None
        if values is None:
            return None
        return self._column(_stacked(values.reshape(len(blobs), begin + n_bytes)[:, :begin], split.rows))

    def _column(self, stacked: NDArray[Any] | None) -> Column | None:
        """Return the column of the rows of one array; `None` if the blobs must be decoded one by one."""
        return None if stacked is None or stacked.ndim == 1 else StackedList(stacked)  # its rows are not scalars


class _Declared(_Array):
    """The same bytes under a declared number type: arrays of exactly that type become one array instead of a list.

    Args:
        dtype: The declared dtype.
        shape: The declared shape.
    """

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> None:
        self._dtype = dtype
        self._shape = shape

    def _column(self, stacked: NDArray[Any] | None) -> Column | None:
        if stacked is not None and stacked.dtype == self._dtype and stacked.shape[1:] == self._shape:
            return np.ascontiguousarray(stacked)
        return super()._column(stacked)


def _stacked(heads: NDArray[np.uint8], data: NDArray[np.uint8]) -> NDArray[Any] | None:
    """Return the rows of one array, without a copy if they are aligned for their dtype.

    Args:
        heads: uint8[n, begin], the header of each.
        data: uint8[n, n_bytes], the data.

    Returns:
        `None` if the headers, and so dtypes or shapes, are not all the same, or the arrays are empty.
    """
    headers = heads.tobytes()
    head = headers[: heads.shape[1]]
    if headers != head * len(heads):
        return None
    dtype, shape = _form(head, data.shape[1])
    if not data.shape[1]:
        return None
    rows = data.view(dtype)
    if not rows.flags.aligned:
        rows = rows.copy()
    return _checked_bools(rows).reshape((len(heads), *shape))


@functools.lru_cache(maxsize=256)
def _form(head: bytes, n_bytes: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of an array, from its header and the number of bytes behind it."""
    array = ARRAY.decode(head + bytes(n_bytes))
    if array.nbytes != n_bytes:
        raise ValueError(f"expected {n_bytes} bytes of data, found {array.nbytes}")
    return array.dtype, array.shape


@functools.lru_cache(maxsize=256)
def _head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the MessagePack before the data of an array."""
    _check_storable(dtype, shape)
    n_bytes = _checked_size(dtype.itemsize * math.prod(shape))
    mark, width = (0xC4, 1) if n_bytes < 2**8 else (0xC5, 2) if n_bytes < 2**16 else (0xC6, 4)
    head: list[Any] = [msgpack.packb(dtype.str), msgpack.packb(shape)]
    return b"\x93" + b"".join(head) + bytes((mark,)) + n_bytes.to_bytes(width, "big")


class FixedArray(Codec):
    """The raw bytes of arrays of one dtype and shape.

    Args:
        dtype: A dtype of bools, integers, floats or complex numbers.
        shape: The sizes; () is a scalar.
    """

    name = "array"

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.blob_bytes: int | None = dtype.itemsize * math.prod(shape)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of an array that fits exactly; numbers follow the rules of `to_exact_array`."""
        if self.dtype.kind != "c":
            return to_exact_array(Type(self.dtype.name, dims=self.shape), value).astype(self.dtype).tobytes()
        array = np.asarray(value)
        if array.dtype.newbyteorder("=") != self.dtype.newbyteorder("=") or array.shape != self.shape:
            raise ValueError(f"expected {self.dtype} of shape {self.shape}, found {array.dtype} of shape {array.shape}")
        return array.astype(self.dtype).tobytes()

    def decode(self, blob: bytes) -> Any:
        """Return the array, or a numpy scalar if the shape is ()."""
        return self._dense(Blobs.join([blob]))[0]

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return an ndarray (B, *shape)."""
        return self._dense(blobs)

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of the rows of an array of the dtype, in place."""
        if not isinstance(values, np.ndarray) or (values.dtype, values.shape[1:]) != (self.dtype, self.shape):
            return None
        return Blobs.back_to_back(values, np.full(len(values), self.blob_bytes, np.int64))

    def _dense(self, blobs: Blobs) -> NDArray[Any]:
        size = self.dtype.itemsize * math.prod(self.shape)
        wrong = np.flatnonzero(blobs.lengths != size)
        if len(wrong):
            raise ValueError(f"expected {size} bytes, found {int(blobs.lengths[wrong[0]])}")
        values, _ = blobs.contiguous()
        return _checked_bools(values.view(self.dtype)).reshape(len(blobs), *self.shape)


class _Npy(Codec):
    """numpy's file format, versions 1.0 and 2.0; 3.0 is for field names, which these arrays do not have."""

    name = "npy"

    def encode(self, value: Any) -> bytes:
        """Return the bytes that `numpy.save` writes; Fortran order is kept."""
        stream = BytesIO()
        np.lib.format.write_array(stream, _plain(value), allow_pickle=False)
        return stream.getvalue()

    def decode(self, blob: bytes) -> NDArray[Any]:
        """Return the array, a copy."""
        stream = BytesIO(blob)
        version = np.lib.format.read_magic(stream)
        if version not in _NPY_HEADERS:
            raise ValueError(f"expected version 1.0 or 2.0, found {version[0]}.{version[1]}")
        shape, fortran_order, dtype = _NPY_HEADERS[version](stream, max_header_size=_MAX_HEADER)
        data = memoryview(blob)[stream.tell() :]
        return array_of(dtype.str, list(shape), data, fortran=fortran_order)


_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def array_of(code: Any, shape: Any, data: Any, *, fortran: bool = False) -> NDArray[Any]:
    """Return the array of a dtype's code, a shape and bytes. All three are validated.

    Args:
        code: A string like `dtype.str`.
        shape: A list of sizes.
        data: Exactly the bytes that dtype and shape need.
        fortran: The first index varies fastest.

    Returns:
        A copy, in the stored byte order and index order.

    Raises:
        ValueError: They are not an array, or the dtype is not allowed.
    """
    dtype = _coded_dtype(code)
    sizes = shape if isinstance(shape, list) else None
    if sizes is None or len(sizes) > MAX_DIMS or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError(f"expected a list of at most {MAX_DIMS} sizes, found {shape!r:.80}")
    if not isinstance(data, bytes | memoryview):
        raise ValueError(f"expected the bytes of an array, found {type(data).__name__}")
    if dtype.itemsize * math.prod(sizes) != len(data):
        raise ValueError(f"expected {dtype.itemsize * math.prod(sizes)} bytes for {code}{sizes}, found {len(data)}")
    array = _checked_bools(np.frombuffer(data, dtype)).copy()
    return array.reshape(sizes[::-1]).T if fortran else array.reshape(sizes)


def parts_of(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Return a dtype's code, the shape, and the bytes in C order.

    Raises:
        TypeError: The value is not an array, or its dtype is not allowed.
        ValueError: It has more bytes or dimensions than can be stored.
    """
    array = _plain(value)
    _checked_size(array.nbytes)
    return array.dtype.str, array.shape, array.tobytes()


def _data(array: NDArray[Any]) -> Any:
    """Return the bytes in C order, without a copy if the array is contiguous and buffers have its dtype."""
    # Numpy exports no float128 whose dtype names a byte order; a declared type names it.
    return array.data if array.flags.c_contiguous and array.dtype.char not in "gG" else array.tobytes()


def _plain(value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray) or not hasattr(value, "__array__"):
        raise TypeError(f"expected an array, found {type(value).__name__}. Pass numpy.asarray(value, dtype).")
    array = np.asarray(value)
    _check_storable(array.dtype, array.shape)
    return array


def _check_storable(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if not _CODE.fullmatch(dtype.str):
        raise TypeError(f"expected bools, integers, floats or complex numbers, found {dtype}")
    if len(shape) > MAX_DIMS:
        raise ValueError(f"expected at most {MAX_DIMS} dimensions, found {len(shape)}")


def _checked_size(n_bytes: int) -> int:
    if n_bytes > _MAX_BYTES:
        raise ValueError(f"expected at most {_MAX_BYTES} bytes, found {n_bytes}. Use codec npy.")
    return n_bytes


def _coded_dtype(code: Any) -> np.dtype[Any]:
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ValueError(f"expected a dtype of bools, integers, floats or complex numbers, found {code!r:.80}")
    return np.dtype(code)


def _checked_bools(values: NDArray[Any]) -> NDArray[Any]:
    # numpy would take any other byte for True in one place and for 2 in another.
    if values.dtype.kind == "b" and values.size and int(values.view(np.uint8).max()) > 1:
        raise ValueError(f"expected 0 or 1, found {int(values.view(np.uint8).max())}")
    return values


def _refuse(_: Any) -> bytes:
    raise TypeError("arrays whose sizes are in other fields are read, not written. Write them as 'array'.")


def _named_dtype(name: str, args: Sequence[str]) -> np.dtype[Any]:
    if name in _NAMES:
        return _NAMES[name]
    if _CODE.fullmatch(name):
        return np.dtype(name)
    raise SpecError(f"array takes a dtype and sizes, as array(float32,64,128), found ({','.join(args)})")


def _sizes(texts: Sequence[str], args: Sequence[str]) -> tuple[int, ...]:
    sizes = tuple(int(text) for text in texts if text.isdecimal() and len(text) < 11)
    if len(sizes) != len(texts) or len(sizes) > MAX_DIMS or math.prod(size or 1 for size in sizes) >= 2**48:
        raise SpecError(
            f"array takes a dtype and at most {MAX_DIMS} sizes with a product below 2^48, as array(float32,64,128), "
            f"found ({','.join(args)})"
        )
    return sizes


ARRAY = _Array()
"""An array of any dtype and shape."""

NPY = _Npy()
"""An array as a `.npy` file."""
