"""Tensors as TensorFlow serializes them: a `TensorProto`, of `tensorflow/core/framework/tensor.proto`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.codecs.features.wire import delimited, varint
from dataformats.interfaces import Codec
from dataformats.protobuf_wire import DELIMITED, VARINT, fields
from dataformats.spec import Type

_DTYPE, _SHAPE, _CONTENT, _HALF, _TEXT = 1, 2, 4, 13, 8  # numbers of fields
_INTEGER = 7
_KINDS = {
    1: ("float32", 5), 2: ("float64", 6), 3: ("int32", _INTEGER), 4: ("uint8", _INTEGER), 5: ("int16", _INTEGER),
    6: ("int8", _INTEGER), 7: ("bytes", _TEXT), 8: ("complex64", 9), 9: ("int64", 10), 10: ("bool", 11),
    14: ("bfloat16", _HALF), 17: ("uint16", _INTEGER), 18: ("complex128", 12), 19: ("float16", _HALF),
    22: ("uint32", 16), 23: ("uint64", 17), 24: ("float8_e5m2", 0), 25: ("float8_e4m3fn", 0),
}  # fmt: skip
"""The number of a dtype in `types.proto`, to its name and the field of its values, if they are not in the content."""
_CODES = {name: code for code, (name, _) in _KINDS.items()}
_MAX_DIMS = 32
_MAX_FILLED = 2**24  # values for which one may stand


class _Tensor(Codec):
    """What `tf.io.serialize_tensor` writes and `tf.io.parse_tensor` reads."""

    name = "tensor"

    def encode(self, value: Any) -> bytes:
        """Return the bytes of an array, or of bytes in nested lists, as `tf.io.serialize_tensor` writes them."""
        array = np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else object)
        if array.dtype == object:
            texts = array.reshape(-1).tolist()
            if not all(type(text) is bytes for text in texts):
                raise TypeError(f"expected an array, or bytes in nested lists, found {type(value).__name__}")
            name, content = "bytes", b"".join(delimited(_TEXT, text) for text in texts)
        else:
            name, data = array.dtype.name, array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            content = delimited(_CONTENT, data) if data else b""
        if name not in _CODES:
            raise TypeError(f"expected an array of {', '.join(_CODES)}, found {array.dtype}")
        shape = b"".join(delimited(2, b"\x08" + varint(size) if size else b"") for size in array.shape)
        return varint(_DTYPE << 3) + varint(_CODES[name]) + delimited(_SHAPE, shape) + content

    def decode(self, blob: bytes) -> Any:
        """Return the array; bytes in nested lists of a tensor of strings."""
        stored = list(fields(bytes(blob)))
        found = {(number, wire): value for number, wire, value in stored}
        code, content = found.get((_DTYPE, VARINT)), found.get((_CONTENT, DELIMITED))
        if not isinstance(code, int) or code not in _KINDS:
            raise ValueError(f"expected the number of a dtype in a TensorProto, found {code!r:.40}")
        name, field = _KINDS[code]
        values = [(wire, value) for number, wire, value in stored if number == field]
        shape = _shape_of(found.get((_SHAPE, DELIMITED), b""))
        if name == "bytes":
            texts = np.empty(len(values), object)
            texts[:] = [value for _, value in values]
            return _filled(texts, shape).reshape(shape).tolist()
        dtype = Type(name).dtype if name not in ("complex64", "complex128") else np.dtype(name)
        assert dtype is not None
        if isinstance(content, bytes) and content:
            if len(content) != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"expected {name}{list(shape)}, found {len(content)} bytes")
            array = np.frombuffer(content, dtype)
        else:
            array = _filled(_numbers(values, dtype, field), shape)
        if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise ValueError("a bool is neither 0 nor 1")
        return array.reshape(shape).copy()


def _shape_of(message: int | bytes) -> tuple[int, ...]:
    assert isinstance(message, bytes)
    sizes = [value for number, wire, value in fields(message) if (number, wire) == (2, DELIMITED)]
    shape = []
    for size in sizes[: _MAX_DIMS + 1]:
        assert isinstance(size, bytes)
        shape.append(next((int(value) for number, wire, value in fields(size) if (number, wire) == (1, VARINT)), 0))
    if len(shape) > _MAX_DIMS or math.prod(shape) >= 2**48:
        raise ValueError(f"expected at most {_MAX_DIMS} sizes, found {len(sizes)}, {shape[:4]} and more")
    return tuple(shape)


def _numbers(values: list[tuple[int, int | bytes]], dtype: np.dtype[Any], field: int) -> NDArray[Any]:
    """Return the numbers of a list of values, packed or one by one."""
    if dtype.kind in "fc" and field != _HALF:
        return np.frombuffer(b"".join(value for _, value in values if isinstance(value, bytes)), dtype)
    integers = list[int]()
    for _, value in values:
        integers += [value] if isinstance(value, int) else _varints(value)
    if field == _HALF:
        return np.array(integers, np.uint16).view(dtype)
    if dtype.kind == "i":
        integers = [number - 2**64 if number >= 2**63 else number for number in integers]
    return np.array(integers, np.uint8 if dtype.kind == "b" else dtype).view(dtype)


def _varints(packed: bytes) -> list[int]:
    """Return the integers of a packed list: as the fields of a message, each behind a tag."""
    ends = np.flatnonzero(np.frombuffer(packed, np.uint8) < 0x80) + 1
    parts = [packed[begin:end] for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
    if sum(map(len, parts)) != len(packed):
        raise ValueError("a packed list ends in a number")
    return [int(value) for part in parts for _, _, value in fields(b"\x08" + part)]


def _filled(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the values of a shape: the last one, or zero, stands for the rest, which TensorFlow leaves out."""
    size = math.prod(shape)
    lacking = size - len(values)
    if not 0 <= lacking <= _MAX_FILLED:
        raise ValueError(f"expected {size} values for the shape {list(shape)}, found {len(values)}")
    zero = np.array([b"" if values.dtype == object else 0], values.dtype)
    return np.concatenate([values, np.repeat(values[-1:] if len(values) else zero, lacking)]) if lacking else values


TENSOR = _Tensor()
"""A serialized `TensorProto`."""
