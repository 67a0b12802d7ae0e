"""Parse serialized Examples and SequenceExamples, one or a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.codecs.features.feature_column import FeatureColumn
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, SEQUENCE_MESSAGE
from dataformats.codecs.features.wire_column import find
from dataformats.compat.tensorflow import sparse
from dataformats.compat.tensorflow.columns import Dense, Field, Padded, Rows, field_of
from dataformats.compat.tensorflow.errors import InvalidArgumentError
from dataformats.compat.tensorflow.features import FixedLenSequenceFeature
from dataformats.errors import CorruptRecordError
from dataformats.kernels.wire import Shape
from dataformats.kernels.wire_columns import JOINED, RAGGED, ReadValues, Value, ValueForm, plan_columns

__all__ = ["parse_example", "parse_sequence_example", "parse_single_example", "parse_single_sequence_example"]

_PLANS = 64  # configurations whose plans are kept


def parse_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: Any = None) -> Any:
    """Return the features of a batch of Examples.

    Args:
        serialized: An array or list of bytes; bytes alone are parsed as `parse_single_example` does.
        features: Name to `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature` or `RaggedFeature`.
        example_names: The name of each record, for errors.
        name: Ignored.

    Returns:
        Name to an array (B, ...), a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: A record does not fit; the error names it and the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> label = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
        >>> record = tf.train.Example(features=tf.train.Features(feature={"label": label})).SerializeToString()
        >>> tf.io.parse_example([record, record], {"label": tf.io.FixedLenFeature([], tf.int64)})
        {'label': array([7, 7])}
    """
    if isinstance(serialized, bytes):
        return parse_single_example(serialized, features, example_names)
    with _Naming(example_names):
        plan = _plan(features)
        return plan.batch(plan.find(_blobs(serialized)))


def parse_single_example(
    serialized: bytes, features: Mapping[str, Any], example_names: Any = None, name: Any = None
) -> dict[str, Any]:
    """Return the features of one Example.

    Args:
        serialized: The bytes of the Example.
        features: Name to configuration, as in `parse_example`.
        example_names: Its name, for errors.
        name: Ignored.

    Returns:
        Name to a numpy scalar, bytes, an array, a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: The record does not fit; the error names the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"cat"]))
        >>> record = tf.train.Example(features=tf.train.Features(feature={"name": name})).SerializeToString()
        >>> tf.io.parse_single_example(record, {"name": tf.io.FixedLenFeature([], tf.string)})
        {'name': b'cat'}
    """
    plan = _plan(features)
    values = plan.read(serialized)
    if values is None:
        with _Naming(example_names, alone=True):
            values = plan.one(plan.find(_blobs([serialized])))
    return values


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: Any = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the features of a batch of SequenceExamples.

    Args:
        serialized: An array or list of bytes.
        context_features: Name to configuration, of the context.
        sequence_features: Name to `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, of the lists.
        example_names: The name of each record, for errors.
        name: Ignored.

    Returns:
        The context; the lists, padded to the longest; and the steps of each record, int64[B], by name of a
        `FixedLenSequenceFeature`.

    Raises:
        InvalidArgumentError: A record does not fit; the error names it and the feature.
        ValueError: A configuration is not valid.
    """
    context, lists = _plan(context_features or {}), _plan(sequence_features or {}, in_steps=True)
    with _Naming(example_names):
        found = _find_sequences(_blobs(serialized), context, lists)
        values = context.batch(found[0])
        columns, lengths = {}, {}
        for field in lists.fields:
            steps = found[1][field.keys[0]]
            if isinstance(field, Padded):
                items, counts = field.steps(steps)
                columns[field.name], lengths[field.name] = field.padded(items, counts), counts
            else:
                columns[field.name] = _batch_of_steps(field, steps)
        return values, columns, lengths


def parse_single_sequence_example(
    serialized: bytes,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: Any = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the features of one SequenceExample.

    Args:
        serialized: The bytes of the SequenceExample.
        context_features: Name to configuration, of the context.
        sequence_features: Name to `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, of the lists.
        example_name: Its name, for errors.
        name: Ignored.

    Returns:
        The context; and the lists: an array with a row for each step, a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: The record does not fit; the error names the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[word])) for word in (5, 6)]
        >>> lists = tf.train.FeatureLists(feature_list={"words": tf.train.FeatureList(feature=steps)})
        >>> record = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
        >>> words = {"words": tf.io.FixedLenSequenceFeature([], tf.int64)}
        >>> tf.io.parse_single_sequence_example(record, sequence_features=words)
        ({}, {'words': array([5, 6])})
    """
    context, lists = _plan(context_features or {}), _plan(sequence_features or {}, in_steps=True)
    with _Naming(example_name, alone=True):
        found = _find_sequences(_blobs([serialized]), context, lists)
        values = context.one(found[0])
        return values, {field.name: _one_of_steps(field, found[1][field.keys[0]]) for field in lists.fields}


def _one_of_steps(field: Field, lists: FeatureColumn) -> Any:
    if isinstance(field, Padded):
        return field.steps(lists)[0]
    values, counts = field.values_of_steps(lists)
    return field.ragged(values, counts) if isinstance(field, Rows) else sparse.of_rows(values, counts)


def _batch_of_steps(field: Field, lists: FeatureColumn) -> Any:
    values, counts = field.values_of_steps(lists)
    if isinstance(field, Rows):
        return field.ragged(field.ragged(values, counts), lists.counts)
    flat = sparse.of_rows(values, counts)
    records = np.repeat(np.arange(len(lists)), lists.counts)
    steps = np.arange(len(counts)) - np.repeat(np.cumsum(lists.counts) - lists.counts, lists.counts)
    at = flat.indices[:, 0]
    indices = np.stack([records[at], steps[at], flat.indices[:, 1]], 1)
    shape = np.array([len(lists), lists.counts.max(initial=0), flat.dense_shape[1]])
    return sparse.SparseTensor(indices, values, shape)


def _blobs(serialized: Any) -> Blobs:
    """Return the records of an array or list."""
    values = serialized.tolist() if isinstance(serialized, np.ndarray) else serialized
    if not isinstance(values, list | tuple) or not all(isinstance(value, bytes) for value in values):
        wrong = next((one for one in values if not isinstance(one, bytes)), values) if values else values
        raise InvalidArgumentError(f"expected serialized records, a vector of bytes, found {wrong!r:.80}")
    return Blobs.join(values)


class _Plan:
    """The features of one configuration.

    Attributes:
        fields: One for each feature, in the order of the result.
    """

    def __init__(self, features: Mapping[str, Any], *, in_steps: bool) -> None:
        make = _field_of_steps if in_steps else field_of
        self.fields = sorted([make(name, features[name]) for name in sorted(features)], key=lambda field: field.group)
        self.keys = list(dict.fromkeys(key for field in self.fields for key in field.keys))
        self._read = None if in_steps else _reader(self.fields)

    def find(self, blobs: Blobs) -> dict[str, FeatureColumn]:
        """Return the features of Examples, by key."""
        found = find(Shape.EXAMPLE, EXAMPLE_MESSAGE, blobs, [(0, key) for key in self.keys])
        return dict(zip(self.keys, found, strict=True))

    def batch(self, found: Mapping[str, FeatureColumn]) -> dict[str, Any]:
        """Return the values of all records."""
        return {field.name: field.batch(found) for field in self.fields}

    def one(self, found: Mapping[str, FeatureColumn]) -> dict[str, Any]:
        """Return the values of the only record."""
        return {field.name: field.one(found) for field in self.fields}

    def read(self, serialized: Any) -> dict[str, Any] | None:
        """Return the values of one record by the fast path; `None` if `one` must return them, or raise."""
        stored = self._read(serialized) if self._read is not None and type(serialized) is bytes else None
        if stored is None:
            return None
        values = {}
        for field in self.fields:
            value = field.one_of_values(stored.get(field.keys[0]))
            if value is None:
                return None
            values[field.name] = value
        return values


def _field_of_steps(name: str, feature: Any) -> Field:
    if isinstance(feature, FixedLenSequenceFeature):
        return Padded(name, feature, in_steps=True)
    field = field_of(name, feature)
    if isinstance(field, Dense) or len(field.keys) > 1:
        raise ValueError(
            f"feature {name!r}: expected FixedLenSequenceFeature, VarLenFeature or RaggedFeature without partitions "
            f"in sequence_features, found {feature!r:.80}"
        )
    return field


def _reader(fields: Sequence[Field]) -> ReadValues | None:
    """Return a function from one record to its stored values by key; `None` if a field needs columns."""
    planned = [(field.keys[0], field.output()) for field in fields]
    outputs = [output for _, output in planned if output is not None]
    if len(outputs) < len(planned) or len({key for key, _ in planned}) < len(planned):
        return None
    forms = {JOINED: ValueForm.BYTES, RAGGED: ValueForm.ELEMENTS}
    values = [Value(forms[output.output], True, key) for (key, _), output in zip(planned, outputs, strict=True)]
    return plan_columns(Shape.EXAMPLE, [(0, key) for key, _ in planned], outputs, values)[1]


def _plan(features: Mapping[str, Any], *, in_steps: bool = False) -> _Plan:
    if not isinstance(features, Mapping):
        raise ValueError(f"expected a dict of features, found {type(features).__name__}")
    try:
        # Tuples of different types may be equal.
        return _kept_plan(tuple(features.items()), tuple(map(type, features.values())), in_steps)
    except TypeError:  # a default value that is a list or an array
        return _Plan(features, in_steps=in_steps)


@lru_cache(_PLANS)
def _kept_plan(features: tuple[tuple[str, Any], ...], types: tuple[type, ...], in_steps: bool) -> _Plan:
    return _Plan(dict(features), in_steps=in_steps)


def _find_sequences(
    blobs: Blobs, context: _Plan, lists: _Plan
) -> tuple[dict[str, FeatureColumn], dict[str, FeatureColumn]]:
    """Return the features of the context, and the feature lists, by key."""
    wanted = [*((0, key) for key in context.keys), *((1, key) for key in lists.keys)]
    found = find(Shape.SEQUENCE_EXAMPLE, SEQUENCE_MESSAGE, blobs, wanted)
    n = len(context.keys)
    return dict(zip(context.keys, found[:n], strict=True)), dict(zip(lists.keys, found[n:], strict=True))


class _Naming:
    """Names the record of an error.

    Args:
        names: The names of the records; `None`: they have none.
        alone: There is one record.
    """

    def __init__(self, names: Any, *, alone: bool = False) -> None:
        self._names = [names] if alone else names
        self._alone = alone

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, InvalidArgumentError | CorruptRecordError):
            return
        name = None if self._names is None or error.index is None else self._names[error.index]
        path = name.decode() if isinstance(name, bytes) else name
        index = None if self._alone else error.index
        field = error.field if isinstance(error, InvalidArgumentError) else None
        remedy = error.remedy if isinstance(error, InvalidArgumentError) else None
        raise InvalidArgumentError(error.what, field=field, index=index, path=path, remedy=remedy) from error
