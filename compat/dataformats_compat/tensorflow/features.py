"""The configurations of features that `tf.io` parses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dataformats_compat.tensorflow.dtypes import DType, as_dtype, numpy_dtype

__all__ = ["FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "SparseFeature", "VarLenFeature"]

_STORED = ("int64", "float32", "string")


def stored_dtype(dtype: Any, name: str) -> DType:
    """Return the dtype of a feature.

    Raises:
        ValueError: A feature cannot have it.
    """
    if dtype is None:
        raise ValueError(f"feature {name!r}: expected a dtype, found None")
    found = as_dtype(dtype)
    if found.name not in _STORED:
        raise ValueError(
            f"feature {name!r}: expected tf.int64, tf.float32 or tf.string, which are stored, found {found!r}. "
            "Parse one of these, then use tf.cast"
        )
    return found


def _hash(feature: Any) -> int:
    """Return the hash of a feature whose shape may be a list: plans are kept by their features."""
    shape, *rest = feature
    return hash((tuple(shape) if type(shape) is list else shape, *rest))


class FixedLenFeature(NamedTuple):
    """A feature with the same number of values in all records.

    Attributes:
        shape: The shape of the values, as the program gave it; `[]` is a scalar.
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        default_value: The values of records that lack the feature, as many as the shape has; `None`: such records are
            an error.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.FixedLenFeature([], tf.int64, default_value=-1)
        FixedLenFeature(shape=[], dtype=tf.int64, default_value=-1)
    """

    shape: Any
    dtype: Any
    default_value: Any = None

    def __hash__(self) -> int:
        return _hash(self)


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of items of one shape; in a batch, short ones are padded.

    Attributes:
        shape: The shape of an item, as the program gave it.
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        allow_missing: A record without it has no items. Must be true, except in the steps of a SequenceExample.
        default_value: The padding, a scalar; `None`: 0 or `b""`.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True).allow_missing
        True
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None

    def __hash__(self) -> int:
        return _hash(self)


class VarLenFeature(NamedTuple):
    """A feature with any number of values, which become a `SparseTensor`.

    Attributes:
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
    """

    dtype: Any


class SparseFeature(NamedTuple):
    """Values of one feature at the indices that other features hold; they become a `SparseTensor`.

    Attributes:
        index_key: The name of the feature with the index of each value; several names, one for each dimension.
        value_key: The name of the feature that has the values.
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        size: The size of the dimension, or of each.
        already_sorted: The indices are in ascending order; otherwise they are sorted.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.SparseFeature("index", "value", tf.int64, size=100).size
        100
    """

    index_key: str | Sequence[str]
    value_key: str
    dtype: Any
    size: int | Sequence[int]
    already_sorted: bool = False


@dataclass(frozen=True)
class _Keyed:
    key: str


class RowSplits(_Keyed):
    """A partition: the feature `key` has the begin of each row, and the end of the last."""


class RowLengths(_Keyed):
    """A partition: the feature `key` has the number of items of each row."""


class RowStarts(_Keyed):
    """A partition: the feature `key` has the begin of each row."""


class RowLimits(_Keyed):
    """A partition: the feature `key` has the end of each row."""


class ValueRowIds(_Keyed):
    """A partition: the feature `key` has the row of each item."""


@dataclass(frozen=True)
class UniformRowLength:
    """A partition: each row has `length` items."""

    length: int


Partition = RowSplits | RowLengths | RowStarts | RowLimits | ValueRowIds | UniformRowLength


class _Ragged(NamedTuple):
    dtype: Any
    value_key: str | None = None
    partitions: tuple[Any, ...] = ()
    row_splits_dtype: Any = DType("int32", 3)
    validate: bool = False


class RaggedFeature(_Ragged):
    """A feature with any number of values: a `RaggedTensor`, or an array for one record without partitions.

    Args:
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        value_key: The name of the feature that has the values; `None`: the key of this configuration.
        partitions: How the values are divided into rows, from the outermost to the innermost dimension.
        row_splits_dtype: The dtype of `row_splits`: `tf.int32` or `tf.int64`.
        validate: Accepted; partitions are always validated.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.RowLengths("lengths")]).partitions
        (RowLengths(key='lengths'),)
    """

    __slots__ = ()
    RowSplits = RowSplits
    RowLengths = RowLengths
    RowStarts = RowStarts
    RowLimits = RowLimits
    ValueRowIds = ValueRowIds
    UniformRowLength = UniformRowLength

    def __new__(
        cls,
        dtype: Any,
        value_key: str | None = None,
        partitions: Sequence[Any] | Any = (),
        row_splits_dtype: Any = "int32",
        validate: bool = False,
    ) -> RaggedFeature:
        single = isinstance(partitions, Partition)
        parts = (partitions,) if single else tuple(partitions)
        splits = as_dtype(row_splits_dtype)
        if numpy_dtype(splits).name not in ("int32", "int64"):
            raise ValueError(f"row_splits_dtype: expected tf.int32 or tf.int64, found {splits!r}")
        return super().__new__(cls, dtype, value_key, parts, splits, validate)
