"""Arrays and bytes with the methods and operators of TensorFlow's tensors that input pipelines use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import as_dtype, convert
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.operators import OPERATORS, kind_of

__all__ = [
    "StringTensor", "Tensor", "TensorShape", "TensorSpec", "array_of", "as_tensor", "binary", "like", "of_one_dtype",
    "operands", "plain", "same_shape", "tensor_of", "unary",
]  # fmt: skip


class TensorShape(tuple[int | None, ...]):
    """A shape: a tuple with TensorFlow's methods, equal to lists as well.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.TensorShape([2, 3]).as_list()
        [2, 3]
    """

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self)

    ndims = rank

    def as_list(self) -> list[int | None]:
        """Return the sizes."""
        return list(self)

    def is_fully_defined(self) -> bool:
        """Return True if all sizes are known."""
        return None not in tuple(self)

    def concatenate(self, other: Any) -> TensorShape:
        """Return the sizes of this shape, followed by the sizes of another."""
        return TensorShape((*self, *other))

    __add__: Any = concatenate

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape((*other, *self))

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, list | tuple) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__: Any = tuple.__hash__


def _operator(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of an operator, and of the same with exchanged operands."""
    return (lambda self, other: binary(name, self, other)), (lambda self, other: binary(name, other, self))


class _TensorMethods:
    """The methods of tensors of numbers and of strings."""

    def get_shape(self: Any) -> TensorShape:
        """Return the shape."""
        return TensorShape(self.shape)

    def set_shape(self: Any, shape: Any) -> None:
        """Check the shape; `None` stands for any size.

        Raises:
            InvalidArgumentError: It is another.
        """
        same_shape(self.shape, shape)

    __add__: Any
    __radd__: Any
    __add__, __radd__ = _operator("add")

    def __eq__(self, other: object) -> Any:
        return _equal("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _equal("not_equal", self, other)

    __hash__: Any = None


class Tensor(_TensorMethods, np.ndarray):
    """A numpy array with the methods and operators of a tensor; numpy's functions return plain arrays of it.

    Another operand takes the dtype of the tensor; a tensor of another dtype is refused.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> image = tf.zeros([2, 2])
        >>> image.set_shape([2, None])
        >>> image.get_shape().as_list(), image.numpy().sum().item(), (image - [0.5, 1.5]).dtype
        ([2, 2], 0.0, tf.float32)
    """

    @property
    def dtype(self) -> Any:
        """The dtype, TensorFlow's."""
        return as_dtype(np.ndarray.dtype.__get__(self))

    @property  # type: ignore[misc]  # numpy's can be assigned
    def shape(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The shape, a `TensorShape`."""
        return TensorShape(np.ndarray.shape.__get__(self))

    def numpy(self) -> Any:
        """Return the plain array, or for a scalar the numpy scalar or bytes."""
        return self.view(np.ndarray)[()] if self.ndim == 0 else self.view(np.ndarray)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray)).replace("array(", "Tensor(", 1)

    def __getitem__(self, key: Any) -> Any:
        return as_tensor(self.view(np.ndarray)[tuple(key) if isinstance(key, list) else key])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        name = _UFUNCS.get(ufunc)
        if name is not None and method == "__call__" and not named and isinstance(inputs[0], np.generic):
            return binary(name, *inputs)  # the operator of a numpy scalar comes here
        if "out" in named:
            named["out"] = tuple(_plain_arrays(named["out"]))
        return getattr(ufunc, method)(*_plain_arrays(inputs), **named)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_plain_arrays(args), **_plain_arrays(kwargs))

    def __neg__(self) -> Any:
        return unary("negative", np.negative, "ifc", self)

    def __abs__(self) -> Any:
        return unary("abs", np.abs, "ifc", self)

    def __invert__(self) -> Any:
        return unary("~", np.invert, "bui", self)


_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floordiv", "mod": "floormod",
    "pow": "pow", "matmul": "matmul", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}

for _method, _operation in (_ARITHMETIC | _COMPARISONS).items():
    _forward, _backward = _operator(_operation)
    setattr(Tensor, f"__{_method}__", _forward)
    if _method in _ARITHMETIC:
        setattr(Tensor, f"__r{_method}__", _backward)
        setattr(Tensor, f"__i{_method}__", _forward)  # a new tensor: names of the same one keep their values


_UFUNCS: dict[Any, str] = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.true_divide: "divide", np.equal: "equal",
    np.floor_divide: "floordiv", np.remainder: "floormod", np.power: "pow", np.not_equal: "not_equal",
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor",
    np.less: "less", np.less_equal: "less_equal", np.greater: "greater", np.greater_equal: "greater_equal",
}  # fmt: skip


def _plain_arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and not isinstance(value, TensorShape):
        parts = [_plain_arrays(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return {name: _plain_arrays(part) for name, part in value.items()} if isinstance(value, dict) else value


def _equal(name: str, x: Any, other: Any) -> Any:
    if other is None:
        return name == "not_equal"
    try:
        return binary(name, x, other)
    except InvalidArgumentError as error:
        if error.__cause__ is None:
            raise
        return as_tensor(np.bool_(name == "not_equal"))  # the shapes do not fit


def unary(name: str, function: Callable[..., Any], kinds: str, x: Any) -> Any:
    """Return `function` of each element.

    Raises:
        InvalidArgumentError: The dtype is of another kind.
    """
    array = array_of(x)
    _check_kind(name, array, kinds)
    with np.errstate(all="ignore"):
        return tensor_of(function(array))


def binary(name: str, x: Any, y: Any) -> Any:
    """Return the operation of `OPERATORS` of two values.

    Raises:
        InvalidArgumentError: They are tensors of two dtypes, or of one that the operation does not take, or their
            shapes differ.
        TypeError: A Python value does not fit the dtype of the other.
    """
    function, kinds = OPERATORS[name]
    left, right = of_one_dtype(name, x, y)
    _check_kind(name, left, kinds)
    with np.errstate(all="ignore"):
        try:
            return tensor_of(function(left, right))
        except InvalidArgumentError:
            raise
        except ValueError as error:
            raise InvalidArgumentError(f"{name}: the shapes {left.shape} and {right.shape} do not fit") from error


def _check_kind(name: str, array: Any, kinds: str) -> None:
    if kind_of(array.dtype) not in kinds:
        raise InvalidArgumentError(f"{name} does not take {as_dtype(array.dtype)!r}", remedy="Cast it with tf.cast")


def operands(*values: Any) -> list[Any]:
    """Return values as arrays: all but tensors take the dtype of the first tensor, or else of the first value.

    Raises:
        TypeError: A Python value does not fit this dtype.
    """
    first = next((value for value in values if isinstance(value, Tensor | StringTensor)), values[0])
    dtype = array_of(first).dtype
    return [
        array_of(value) if value is first or isinstance(value, Tensor | StringTensor) else like(value, dtype)
        for value in values
    ]


def of_one_dtype(name: str, *values: Any) -> list[Any]:
    """Return the values of an operation as `operands` does.

    Raises:
        InvalidArgumentError: They are tensors of several dtypes.
    """
    arrays = operands(*values)
    other = next((array.dtype for array in arrays if array.dtype != arrays[0].dtype), None)
    if other is not None:
        found = f"{as_dtype(arrays[0].dtype)!r} and {as_dtype(other)!r}"
        raise InvalidArgumentError(f"{name}: expected tensors of one dtype, found {found}", remedy="Cast with tf.cast")
    return arrays


def like(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as an array of a dtype, as TensorFlow converts it.

    Raises:
        TypeError: It is a Python value of another kind: a float for a dtype of integers, for example.
    """
    array = array_of(value)
    kind, wanted = kind_of(array.dtype), kind_of(dtype)
    named = isinstance(value, np.ndarray | np.generic) or _has_tensor(value)
    if kind == wanted == "O":
        return array
    fits = "O" not in (kind, wanted) and (named or not array.size or _takes(wanted, dtype, kind))
    fits = fits and not (dtype == np.uint64 and not named and (array < 0).any())
    if not fits:
        raise TypeError(f"cannot use {value!r:.80} as {as_dtype(dtype)!r}. Cast the tensor with tf.cast")
    with np.errstate(all="ignore"):
        return (array.real if kind == "c" and wanted != "c" else array).astype(dtype)


def _takes(wanted: str, dtype: np.dtype[Any], kind: str) -> bool:
    """Return True if a dtype takes Python numbers of a kind."""
    if kind == "b":
        return dtype.name in ("bool", "uint64", "int32", "int64", "float16", "float32", "float64", "complex128")
    return wanted in {"i": "uifc", "u": "uifc", "f": "fc", "c": "c"}[kind]


def _has_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, list | tuple) and any(map(_has_tensor, value)))


class StringTensor(_TensorMethods, bytes):
    """Bytes with the methods and operators of a scalar tensor of strings.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> name = next(iter(tf.data.Dataset.from_tensors("cat")))
        >>> name.numpy(), (name + ".jpg").numpy(), bool(name == "cat")
        (b'cat', b'cat.jpg', True)
    """

    shape: TensorShape = TensorShape()
    dtype: Any = as_dtype("string")

    def __repr__(self) -> str:
        return bytes.__repr__(self)

    def numpy(self) -> bytes:
        """Return the plain bytes."""
        return bytes(self)

    __hash__: Any = bytes.__hash__


class TensorSpec:
    """Shape and dtype of an element's component.

    Args:
        shape: The shape; `None` in it stands for any size.
        dtype: The dtype.

    Attributes:
        shape: The shape.
        dtype: The dtype.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.TensorSpec([None, 3], tf.int64)
        TensorSpec(shape=(None, 3), dtype=tf.int64)
    """

    def __init__(self, shape: Any, dtype: Any = "float32", name: Any = None) -> None:
        self.shape: TensorShape | None = None if shape is None else TensorShape(shape)
        self.dtype: Any = as_dtype(dtype)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r})"


def same_shape(found: tuple[int, ...], shape: Any) -> None:
    """Check a shape; `None` stands for any size.

    Raises:
        InvalidArgumentError: It is another.
    """
    wanted = found if shape is None else tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if len(wanted) != len(found) or any(size not in (None, -1, at) for size, at in zip(wanted, found, strict=True)):
        raise InvalidArgumentError(f"expected shape {wanted}, found {found}")


def as_tensor(value: Any) -> Any:
    """Return numpy values as `Tensor` and bytes as `StringTensor`, without a copy of arrays."""
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ndarray) and not value.ndim and value.dtype == object:
            return as_tensor(value.item())
        return np.asarray(value).view(Tensor)
    return StringTensor(value) if type(value) is bytes else value


def plain(value: Any) -> Any:
    """Return the numpy value or bytes of `as_tensor`."""
    return value.numpy() if isinstance(value, Tensor | StringTensor) else value


def array_of(value: Any) -> Any:
    """Return a value as a plain array; bytes as one of dtype object."""
    if isinstance(value, Tensor):
        return value.view(np.ndarray)
    found = convert(value)
    return np.asarray(found, object) if isinstance(found, bytes) else np.asarray(found)


def tensor_of(array: Any) -> Any:
    """Return an array as `Tensor`, or a scalar of dtype object as `StringTensor`."""
    return as_tensor(np.asarray(array, object if isinstance(array, bytes) else None))
