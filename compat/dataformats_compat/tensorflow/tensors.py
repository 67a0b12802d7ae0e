"""Arrays as bytes: TensorFlow's `TensorProto`, and raw numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from dataformats_compat.tensorflow.dtypes import DTYPES, as_dtype, convert, numpy_dtype, string_array
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.tensor import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_raw", "parse_tensor", "serialize_tensor"]

_LISTS = {
    "float32": ("float_val", 5, "FLOAT"),
    "float64": ("double_val", 6, "DOUBLE"),
    "int32": ("int_val", 7, "INT32"),
    "string": ("string_val", 8, "BYTES"),
    "complex64": ("scomplex_val", 9, "FLOAT"),
    "int64": ("int64_val", 10, "INT64"),
    "bool": ("bool_val", 11, "BOOL"),
    "complex128": ("dcomplex_val", 12, "DOUBLE"),
    "float16": ("half_val", 13, "INT32"),
    "uint32": ("uint32_val", 16, "UINT32"),
    "uint64": ("uint64_val", 17, "UINT64"),
}
"""Dtype to the name, number and type of the list that holds its values; small integers are in `int_val`."""


def _tensor_message() -> Any:
    """Return the class of `tensorflow.TensorProto`, in a separate descriptor pool."""
    file = FileDescriptorProto(name="dataformats/tensor.proto", package="tensorflow", syntax="proto3")
    many, one = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    shape, tensor = file.message_type.add(name="TensorShapeProto"), file.message_type.add(name="TensorProto")
    dim = shape.nested_type.add(name="Dim")
    dim.field.add(name="size", number=1, type="TYPE_INT64", label=one)
    dim.field.add(name="name", number=2, type="TYPE_STRING", label=one)
    name = ".tensorflow.TensorShapeProto"
    shape.field.add(name="dim", number=2, type="TYPE_MESSAGE", type_name=f"{name}.Dim", label=many)
    shape.field.add(name="unknown_rank", number=3, type="TYPE_BOOL", label=one)
    tensor.field.add(name="dtype", number=1, type="TYPE_INT32", label=one)
    tensor.field.add(name="tensor_shape", number=2, type="TYPE_MESSAGE", type_name=name, label=one)
    tensor.field.add(name="tensor_content", number=4, type="TYPE_BYTES", label=one)
    for field, number, kind in _LISTS.values():
        tensor.field.add(name=field, number=number, type=f"TYPE_{kind}", label=many)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("tensorflow.TensorProto"))


_TENSOR = _tensor_message()


def serialize_tensor(tensor: Any, name: Any = None) -> Any:
    """Return an array as a serialized `TensorProto`.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.parse_tensor(tf.io.serialize_tensor([[1, 2]]), tf.int32).numpy()
        array([[1, 2]], dtype=int32)
    """
    array = np.asarray(convert(tensor), object if isinstance(tensor, bytes | str) else None)
    kind = as_dtype(array.dtype)
    message = _TENSOR(dtype=kind.as_datatype_enum)
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if array.dtype == object:
        message.string_val.extend(array.reshape(-1).tolist())
    else:
        message.tensor_content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return as_tensor(message.SerializeToString())


def parse_tensor(serialized: bytes, out_type: Any, name: Any = None) -> Any:
    """Return the array of a serialized `TensorProto`.

    Args:
        serialized: The bytes.
        out_type: Its dtype.

    Raises:
        InvalidArgumentError: The bytes do not parse, are not of this dtype, or have too many or too few values.
    """
    try:
        message = _TENSOR.FromString(serialized)
    except DecodeError as error:
        raise InvalidArgumentError(f"the bytes do not parse as a TensorProto ({error})") from error
    wanted = as_dtype(out_type)
    if message.dtype != wanted.as_datatype_enum:
        found = next((one for one in DTYPES.values() if one.as_datatype_enum == message.dtype), message.dtype)
        raise InvalidArgumentError(f"expected a tensor of {wanted!r}, found the dtype {found!r}")
    shape = tuple(dim.size for dim in message.tensor_shape.dim)
    size = math.prod(shape)
    values = _values(message, wanted.name)
    if min(shape, default=0) < 0 or len(values) > size or (len(values) < size and message.tensor_content):
        raise InvalidArgumentError(f"expected {size} values for the shape {shape}, found {len(values)}")
    if len(values) < size:
        values = _repeated(values, size)
    return as_tensor(values.reshape(shape))


def _values(message: Any, name: str) -> NDArray[Any]:
    """Return the stored values, in one dimension."""
    dtype = numpy_dtype(name)
    if name == "string":
        return string_array(list(message.string_val))
    content = message.tensor_content
    if content:
        if len(content) % dtype.itemsize:
            raise InvalidArgumentError(f"expected values of {dtype.itemsize} bytes, found {len(content)} bytes")
        return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)
    field, _, _ = _LISTS.get(name, _LISTS["int32"])
    stored = getattr(message, field)
    if name == "float16":
        return np.array(stored, np.uint16).view(np.float16)
    if dtype.kind == "c":
        return np.array(stored, np.float32 if name == "complex64" else np.float64).view(dtype)
    return np.array(stored, np.int64 if dtype.kind in "iu" and dtype.itemsize < 4 else dtype).astype(dtype)


_MAX_VALUES = 2**28  # values that one may stand for


def _repeated(values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the values, filled up to `size` with the last one, or with zero if `values` is empty."""
    if size > _MAX_VALUES:
        raise InvalidArgumentError(
            f"expected values, found {len(values)} that stand for {size}, more than {_MAX_VALUES}"
        )
    fill = values[-1] if len(values) else (b"" if values.dtype == object else 0)
    return np.concatenate([values, np.full(size - len(values), fill, values.dtype)])


def decode_raw(
    input_bytes: Any, out_type: Any, little_endian: bool = True, fixed_length: int | None = None, name: Any = None
) -> Any:
    """Return the numbers in bytes.

    Args:
        input_bytes: Bytes, or an array of bytes of one length.
        out_type: The dtype of the numbers.
        little_endian: Their byte order.
        fixed_length: The bytes that are used: longer values are cut off, shorter ones filled with zeros. `None`: all.

    Returns:
        (..., n) of that dtype.

    Raises:
        InvalidArgumentError: The length is no multiple of a number's, or lengths differ.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.decode_raw(b"ab", tf.uint8).numpy()
        array([97, 98], dtype=uint8)
    """
    dtype = numpy_dtype(out_type)
    blobs = np.asarray(convert(input_bytes), object)
    parts = blobs.reshape(-1).tolist()
    length = (len(parts[0]) if parts else 0) if fixed_length is None else int(fixed_length)
    if fixed_length is not None:
        parts = [part[:length].ljust(length, b"\0") for part in parts]
    if dtype.kind == "O" or length % dtype.itemsize:
        raise InvalidArgumentError(f"expected a multiple of {dtype.itemsize} bytes for {dtype}, found {length} bytes")
    wrong = next((len(part) for part in parts if len(part) != length), None)
    if wrong is not None:
        raise InvalidArgumentError(f"expected values of one length, {length} bytes, found {wrong} bytes")
    stored = np.frombuffer(bytearray(b"".join(parts)), dtype.newbyteorder("<" if little_endian else ">"))
    return as_tensor(stored.astype(dtype, copy=False).reshape(*blobs.shape, length // dtype.itemsize))
