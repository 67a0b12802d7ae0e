"""`tf.lookup`: tables from keys to values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dataformats_compat.tensorflow.arrays import constant
from dataformats_compat.tensorflow.dtypes import DType, as_dtype
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.sparse import SparseTensor
from dataformats_compat.tensorflow.tensor import array_of, like, tensor_of

__all__ = ["KeyValueTensorInitializer", "StaticHashTable"]

__getattr__: Any = missing_from(__name__)


class KeyValueTensorInitializer:
    """The keys and values of a table, (n,), and their dtypes."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: Any = None
    ) -> None:
        self.keys: Any = constant(keys, key_dtype)
        self.values: Any = constant(values, value_dtype)


class StaticHashTable:
    """A table that does not change.

    Args:
        initializer: Its keys and values.
        default_value: The value of all other keys.

    Attributes:
        key_dtype: The dtype of the keys.
        value_dtype: The dtype of the values.

    Raises:
        InvalidArgumentError: A key has two values.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2]), -1)
        >>> table.lookup(tf.constant(["dog", "cow"])).numpy()
        array([ 2, -1], dtype=int32)
    """

    def __init__(self, initializer: KeyValueTensorInitializer, default_value: Any, name: Any = None, **_: Any) -> None:
        self.key_dtype: DType = initializer.keys.dtype
        self.value_dtype: DType = initializer.values.dtype
        self._default = like(default_value, self.value_dtype.dtype)[()]
        self._table: dict[Any, Any] = {}
        for key, value in zip(initializer.keys.tolist(), initializer.values.tolist(), strict=True):
            if self._table.setdefault(key, value) != value:
                raise InvalidArgumentError(f"the key {key!r} has two values, {self._table[key]!r} and {value!r}")

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
        if array.dtype != self.key_dtype:
            raise TypeError(f"keys: expected {self.key_dtype!r}, found {as_dtype(array.dtype)!r}")
        found = [self._table.get(key, self._default) for key in array.reshape(-1).tolist()]
        values = np.empty(len(found), self.value_dtype.dtype)
        values[:] = found
        return tensor_of(values.reshape(array.shape))

    __getitem__ = lookup
