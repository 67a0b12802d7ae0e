"""`tf.lookup`: tables from keys to values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats.compat.tensorflow.dtypes import DType, as_dtype
from dataformats.compat.tensorflow.errors import InvalidArgumentError
from dataformats.compat.tensorflow.missing import missing_from
from dataformats.compat.tensorflow.ragged import RaggedTensor
from dataformats.compat.tensorflow.sparse import SparseTensor
from dataformats.compat.tensorflow.tensor import array_of, like, tensor_of

__all__ = ["KeyValueTensorInitializer", "StaticHashTable"]

__getattr__ = missing_from(__name__)


class KeyValueTensorInitializer:
    """The keys and values of a table, (n,), and their dtypes."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: Any = None
    ) -> None:
        self.keys, self.values = _typed(keys, key_dtype), _typed(values, value_dtype)


def _typed(values: Any, dtype: Any) -> Any:
    return array_of(values) if dtype is None else like(values, as_dtype(dtype).dtype)


class StaticHashTable:
    """A table that does not change.

    Args:
        initializer: Its keys and values.
        default_value: The value of all other keys.

    Raises:
        InvalidArgumentError: A key has two values.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2]), -1)
        >>> table.lookup(tf.constant(["dog", "cow"])).numpy()
        array([ 2, -1], dtype=int32)
    """

    def __init__(self, initializer: KeyValueTensorInitializer, default_value: Any, name: Any = None, **_: Any) -> None:
        self._keys, self._values = initializer.keys.dtype, initializer.values.dtype
        self._default = like(default_value, self._values)[()]
        self._table: dict[Any, Any] = {}
        for key, value in zip(initializer.keys.tolist(), initializer.values.tolist(), strict=True):
            if self._table.setdefault(key, value) != value:
                raise InvalidArgumentError(f"the key {key!r} has two values, {self._table[key]!r} and {value!r}")

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return as_dtype(self._keys)

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return as_dtype(self._values)

    def size(self, name: Any = None) -> Any:
        """Return the number of keys, int64."""
        return tensor_of(np.int64(len(self._table)))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """Return the values of keys: a tensor, or a `SparseTensor` or `RaggedTensor` if the keys are one.

        Raises:
            TypeError: The keys have another dtype.
        """
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values), keys.dense_shape)
        if isinstance(keys, RaggedTensor):
            return RaggedTensor(self.lookup(keys.values), keys.row_splits)
        array = array_of(keys)
        if array.dtype != self._keys:
            raise TypeError(f"keys: expected {self.key_dtype!r}, found {as_dtype(array.dtype)!r}")
        found = [self._table.get(key, self._default) for key in array.reshape(-1).tolist()]
        values = np.empty(len(found), self._values)
        values[:] = found
        return tensor_of(values.reshape(array.shape))

    __getitem__ = lookup
