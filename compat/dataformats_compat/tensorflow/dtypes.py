"""TensorFlow's dtypes by name, and the conversion of Python values to numpy as TensorFlow converts them.

`np.dtype` accepts each of them: `np.zeros(3, tf.float32)`. Strings are `bytes`, in arrays of dtype object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.errors import MissingExtraError
from dataformats.internals import cached_property
from dataformats_compat.tensorflow.missing import missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DType", "as_dtype", "convert", "is_string", "numpy_dtype", "string_array"]


def _of_kind(kinds: str, doc: str) -> Any:
    return property(lambda self: self.dtype.kind in kinds, doc=doc)


class DType:
    """A dtype with TensorFlow's name and properties; equal to the numpy dtype of its values.

    Args:
        name: TensorFlow's name, such as `"float32"` or `"string"`.
        enum: Its number in protobuf messages.

    Attributes:
        name: TensorFlow's name.
        as_datatype_enum: Its number in protobuf messages.

    Example:
        >>> import numpy as np
        >>> import dataformats_compat.tensorflow as tf
        >>> np.zeros(2, tf.uint8).dtype == tf.uint8, tf.float32.name, tf.as_dtype("int64")
        (True, 'float32', tf.int64)
    """

    def __init__(self, name: str, enum: int) -> None:
        self.name = name
        self.as_datatype_enum = enum

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype.

        Raises:
            MissingExtraError: It is bfloat16, and the package ml_dtypes is not installed.
        """
        if self.name != "bfloat16":
            return np.dtype(object if self.name == "string" else self.name)
        try:
            import ml_dtypes
        except ModuleNotFoundError as error:
            raise MissingExtraError("tf.bfloat16", package="ml_dtypes") from error
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """The numpy scalar type; `numpy.object_` for strings."""
        return self.dtype.type

    @property
    def base_dtype(self) -> DType:
        """The same dtype."""
        return self

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    @property
    def is_floating(self) -> bool:
        """True for real floating-point numbers."""
        return self.name == "bfloat16" or self.dtype.kind == "f"

    is_complex: Any = _of_kind("c", "True for complex numbers.")
    is_integer: Any = _of_kind("iu", "True for integers, signed or not.")
    is_bool: Any = _of_kind("b", "True for bool.")
    is_unsigned: Any = _of_kind("u", "True for unsigned integers.")

    @property
    def min(self) -> Any:
        """The lowest finite number."""
        return False if self.is_bool else (np.finfo if self.is_floating else np.iinfo)(self.dtype).min

    @property
    def max(self) -> Any:
        """The highest finite number."""
        return True if self.is_bool else (np.finfo if self.is_floating else np.iinfo)(self.dtype).max

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        try:
            return as_dtype(other) is self
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __getattr__(self, name: str) -> Any:
        # Code written for numpy reads `kind` and so on of the dtype of a tensor.
        if name.startswith("__") or name not in _NUMPY_ATTRIBUTES:
            raise AttributeError(f"tf.DType has no attribute {name!r}")
        return getattr(self.dtype, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_NUMPY_ATTRIBUTES = frozenset(("type", "kind", "char", "itemsize", "str", "byteorder", "hasobject", "newbyteorder"))

# The numbers come from DataType in TensorFlow's types.proto.
_ENUMS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8,
    "int64": 9, "bool": 10, "bfloat16": 14, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
DTYPES = {name: DType(name, enum) for name, enum in _ENUMS.items()}
"""Name to dtype."""

NAMED = DTYPES | {"half": DTYPES["float16"], "double": DTYPES["float64"]}
"""Name, or another name, to dtype."""

_KNOWN: dict[Any, DType] = {
    **NAMED,
    **{known.as_datatype_enum: known for known in DTYPES.values()},
    **{known.dtype: known for known in DTYPES.values() if known.name != "bfloat16"},
    int: DTYPES["int32"],
    float: DTYPES["float32"],
}


def as_dtype(type_value: Any) -> DType:
    """Return the dtype of a name, a numpy dtype or a Python type.

    Raises:
        TypeError: TFRecord code has no use for it.
    """
    if isinstance(type_value, DType):
        return type_value
    kind: Any = type_value
    try:
        known = _KNOWN.get("" if type_value is True or type_value is False else kind)
        if known is not None:
            return known
        found = np.dtype("V" if kind is None else kind)
        name = "string" if found.kind in "OSU" else found.name
    except TypeError:
        name = ""  # numpy knows no such dtype
    if name not in DTYPES:
        raise TypeError(f"cannot use {kind!r} as a dtype: expected one of {', '.join(f'tf.{name}' for name in DTYPES)}")
    return DTYPES[name]


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the numpy dtype of anything that `as_dtype` takes."""
    return as_dtype(dtype).dtype


def is_string(dtype: Any) -> bool:
    """Return True for `tf.string`."""
    return as_dtype(dtype).dtype.kind == "O"


def string_array(values: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """Return an object array of a list of bytes."""
    array = np.empty(len(values), object)
    array[:] = values
    return array if shape is None else array.reshape(shape)


def convert(value: Any, dtype: Any = None) -> Any:
    """Return a value as numpy, with the dtype that TensorFlow gives it: a scalar, bytes, or an array.

    Python integers are int32 (int64 if they need it), Python floats float32, text bytes; numpy values keep theirs.

    Raises:
        ValueError: Nested lists differ in length.
    """
    if isinstance(value, bytes | np.generic) and dtype is None and not isinstance(value, np.str_):
        return bytes(value) if isinstance(value, bytes) else value
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value, object if _first(value, bytes | str) else None)
    if array.dtype.kind in "USO":
        array = _strings(value if not isinstance(value, np.ndarray) else array)
    elif dtype is not None:
        array = array.astype(numpy_dtype(dtype), copy=False)
    elif array.dtype in (np.int64, np.float64) and not _first(value, np.ndarray | np.generic):  # these have a dtype
        array = _narrow(array)
    return array if array.ndim else array[()]


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    narrow = array.astype(np.int32)
    return narrow if (narrow == array).all() else array


def _first(value: Any, kind: Any) -> bool:
    """Return True if the first value in nested lists is of a type."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, kind)


def _strings(value: Any) -> NDArray[Any]:
    array = np.array(value, dtype=object)
    flat = [
        item.encode() if isinstance(item, str) else bytes(item) if isinstance(item, bytes) else item
        for item in array.reshape(-1).tolist()
    ]
    wrong = next((item for item in flat if not isinstance(item, bytes)), None)
    if wrong is not None:
        raise ValueError(
            f"expected an array of numbers or strings, found a {type(wrong).__name__} in it: {wrong!r:.80}"
        )
    return string_array(flat, array.shape)


def __getattr__(name: str) -> DType:
    if name in NAMED:
        return NAMED[name]
    raise missing(f"dtypes.{name}")
