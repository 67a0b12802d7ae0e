"""Arrays and bytes that also have the methods of TensorFlow's tensors that input pipelines call."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.compat.tensorflow.dtypes import as_dtype, convert
from dataformats.compat.tensorflow.errors import InvalidArgumentError

__all__ = [
    "StringTensor",
    "Tensor",
    "TensorShape",
    "TensorSpec",
    "array_of",
    "as_tensor",
    "plain",
    "same_shape",
    "tensor_of",
]


class TensorShape(tuple[int | None, ...]):
    """A shape: a tuple with TensorFlow's methods.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> tf.TensorShape([2, 3]).as_list()
        [2, 3]
    """

    __slots__ = ()

    @property
    def ndims(self) -> int:
        """The number of dimensions."""
        return len(self)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self)

    def as_list(self) -> list[int | None]:
        """Return the sizes."""
        return list(self)


class Tensor(np.ndarray):
    """A numpy array with the methods of a tensor that input pipelines call; everything else is numpy's.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> image = tf.zeros([2, 2])
        >>> image.set_shape([2, None])
        >>> image.get_shape().as_list(), image.numpy().sum().item()
        ([2, 2], 0.0)
    """

    def numpy(self) -> Any:
        """Return the plain array, or for a scalar the numpy scalar or bytes."""
        return self.view(np.ndarray)[()] if self.ndim == 0 else self.view(np.ndarray)

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return TensorShape(self.shape)

    def set_shape(self, shape: Any) -> None:
        """Check the shape; `None` stands for any size.

        Raises:
            InvalidArgumentError: It is another.
        """
        same_shape(self.shape, shape)


class StringTensor(bytes):
    """Bytes with the methods of a scalar tensor of strings.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> next(iter(tf.data.Dataset.from_tensors("cat"))).numpy()
        b'cat'
    """

    shape: TensorShape = TensorShape()
    dtype: Any = as_dtype("string")

    def numpy(self) -> bytes:
        """Return the plain bytes."""
        return bytes(self)


class TensorSpec:
    """Shape and dtype of an element's component.

    Args:
        shape: The shape; `None` in it stands for any size.
        dtype: The dtype.
        name: Ignored.

    Attributes:
        shape: The shape.
        dtype: The dtype.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> tf.TensorSpec([None, 3], tf.int64)
        TensorSpec(shape=(None, 3), dtype=tf.int64)
    """

    def __init__(self, shape: Any, dtype: Any = "float32", name: Any = None) -> None:
        self.shape: TensorShape | None = None if shape is None else TensorShape(shape)
        self.dtype: Any = as_dtype(dtype)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype})"


def same_shape(found: tuple[int, ...], shape: Any) -> None:
    """Check a shape; `None` stands for any size.

    Raises:
        InvalidArgumentError: It is another.
    """
    wanted = found if shape is None else tuple(shape)
    if len(wanted) != len(found) or any(size not in (None, -1, at) for size, at in zip(wanted, found, strict=True)):
        raise InvalidArgumentError(f"expected shape {wanted}, found {found}")


def as_tensor(value: Any) -> Any:
    """Return numpy values as `Tensor` and bytes as `StringTensor`, without a copy of arrays."""
    if isinstance(value, bytes):
        return StringTensor(value)
    return np.asarray(value).view(Tensor) if isinstance(value, np.ndarray | np.generic) else value


def plain(value: Any) -> Any:
    """Return the numpy value or bytes of `as_tensor`."""
    return value.numpy() if isinstance(value, Tensor | StringTensor) else value


def array_of(value: Any) -> Any:
    """Return a value as an array; bytes as one of dtype object."""
    found = convert(value)
    return np.asarray(found, object) if isinstance(found, bytes) else np.asarray(found)


def tensor_of(array: Any) -> Any:
    """Return an array as `Tensor`, and without dimensions as its scalar."""
    found = np.asarray(array)
    return as_tensor(found) if found.ndim else found[()]
