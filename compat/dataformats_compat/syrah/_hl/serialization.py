"""Arrays as bytes: the dtypes of the format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["deserialize_array", "dtype_names", "dtype_to_string", "dtypes", "serialize_array"]

_NAMES = (
    "bool", "int8", "uint8", "str", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64",
    "float64", "float128",
)  # fmt: skip

dtypes: dict[int, str] = {np.dtype(name).num: name for name in _NAMES if name == "str" or hasattr(np, name)}
"""numpy's number of a type to its name in a file."""

dtype_names: dict[str, int] = {name: number for number, name in dtypes.items()}
"""Name in a file to numpy's number of the type."""


def dtype_to_string(data_type: np.dtype[Any]) -> str:
    """Return the name of a dtype in a file.

    Raises:
        TypeError: The format has no such dtype.

    Example:
        >>> import numpy as np
        >>> dtype_to_string(np.dtype("<U5"))
        'str'
    """
    name = "str" if data_type.kind == "U" else data_type.name
    if name not in dtype_names:
        raise TypeError(f"Syrah has no dtype {data_type}: expected one of {', '.join(dtype_names)}")
    return name


def serialize_array(array: NDArray[Any]) -> tuple[bytes, str]:
    """Return the little-endian bytes of an array in C order, of text its UTF-8 joined, and the name of its dtype.

    Raises:
        TypeError: The format has no such dtype.
    """
    name = dtype_to_string(array.dtype)
    if name == "str":
        return "".join(array.ravel().tolist()).encode(), name
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes(), name


def deserialize_array(array_serialized: Any, data_type: str) -> NDArray[Any]:
    """Return the bytes of a buffer as an array of one dimension, without a copy; text as an array of one string.

    Raises:
        TypeError: The format has no such dtype.
        ValueError: The bytes are not a whole number of values, or not UTF-8.
    """
    dtype = _DTYPES.get(data_type)
    if dtype is not None:
        return np.frombuffer(array_serialized, dtype)
    if data_type != "str":
        raise TypeError(f"Syrah has no dtype {data_type!r}: expected one of {', '.join(dtype_names)}")
    return np.array([str(array_serialized, "utf-8")])


_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in dtype_names if name != "str"}
