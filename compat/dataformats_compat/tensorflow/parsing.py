"""Parse serialized Examples and SequenceExamples, one or a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.errors import CorruptRecordError
from dataformats.internals import SEQUENCE_MESSAGE, FeatureColumn, Shape, find_columns
from dataformats_compat.tensorflow import sparse
from dataformats_compat.tensorflow.columns import Padded, ParsedFeature
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.plan import ParsePlan, plan_of
from dataformats_compat.tensorflow.ragged_columns import Rows
from dataformats_compat.tensorflow.tensor import as_tensor

__all__ = ["parse_example", "parse_sequence_example", "parse_single_example", "parse_single_sequence_example"]


def parse_example(serialized: Any, features: Mapping[str, Any], example_names: Any = None, name: Any = None) -> Any:
    """Return the features of a batch of Examples.

    Args:
        serialized: An array or list of bytes; bytes alone are parsed as `parse_single_example` does.
        features: Name to `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`, `RaggedFeature` or
            `SparseFeature`.
        example_names: The name of each record, for errors.

    Returns:
        Name to an array (B, ...), a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: A record does not fit; the error names it and the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> label = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
        >>> record = tf.train.Example(features=tf.train.Features(feature={"label": label})).SerializeToString()
        >>> tf.io.parse_example([record, record], {"label": tf.io.FixedLenFeature([], tf.int64)})
        {'label': Tensor([7, 7])}
    """
    if isinstance(serialized, bytes):
        return parse_single_example(serialized, features, example_names)
    with _naming(example_names):
        plan = plan_of(features)
        return plan.batch(plan.find(_blobs(serialized)))


def parse_single_example(
    serialized: bytes, features: Mapping[str, Any], example_names: Any = None, name: Any = None
) -> dict[str, Any]:
    """Return the features of one Example.

    Args:
        serialized: The bytes of the Example.
        features: Name to configuration, as in `parse_example`.
        example_names: Its name, for errors.

    Returns:
        Name to a numpy scalar, bytes, an array, a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: The record does not fit; the error names the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"cat"]))
        >>> record = tf.train.Example(features=tf.train.Features(feature={"name": name})).SerializeToString()
        >>> tf.io.parse_single_example(record, {"name": tf.io.FixedLenFeature([], tf.string)})
        {'name': b'cat'}
    """
    plan = plan_of(features)
    values = plan.read(serialized)
    if values is None:
        with _naming(example_names, alone=True):
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
        context_features: Name to configuration, for the context.
        sequence_features: Name to `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, for the lists.
        example_names: The name of each record, for errors.

    Returns:
        The context; the lists, padded to the longest; and the steps of each record, int64[B], by name of a
        `FixedLenSequenceFeature`.

    Raises:
        InvalidArgumentError: A record does not fit; the error names it and the feature.
        ValueError: A configuration is not valid.
    """
    if isinstance(serialized, bytes):
        single = parse_single_sequence_example(serialized, context_features, sequence_features, example_names)
        return *single, {}
    context, lists = plan_of(context_features or {}), plan_of(sequence_features or {}, in_steps=True)
    with _naming(example_names):
        found = _find_sequences(_blobs(serialized), context, lists)
        values = context.batch(found[0])
        columns, lengths = {}, {}
        for field in lists.fields:
            steps = found[1][field.keys[0]]
            if isinstance(field, Padded):
                items, counts = field.steps(steps)
                columns[field.name] = as_tensor(field.padded(items, counts))
                lengths[field.name] = as_tensor(counts)
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
        context_features: Name to configuration, for the context.
        sequence_features: Name to `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature`, for the lists.
        example_name: Its name, for errors.

    Returns:
        The context; and the lists: an array with a row for each step, a `SparseTensor` or a `RaggedTensor`.

    Raises:
        InvalidArgumentError: The record does not fit; the error names the feature.
        ValueError: A configuration is not valid.

    Example:
        >>> import dataformats_compat.tensorflow as tf
        >>> steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[word])) for word in (5, 6)]
        >>> lists = tf.train.FeatureLists(feature_list={"words": tf.train.FeatureList(feature=steps)})
        >>> record = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
        >>> words = {"words": tf.io.FixedLenSequenceFeature([], tf.int64)}
        >>> tf.io.parse_single_sequence_example(record, sequence_features=words)
        ({}, {'words': Tensor([5, 6])})
    """
    context, lists = plan_of(context_features or {}), plan_of(sequence_features or {}, in_steps=True)
    with _naming(example_name, alone=True):
        found = _find_sequences(_blobs([serialized]), context, lists)
        values = context.one(found[0])
        return values, {field.name: _one_of_steps(field, found[1][field.keys[0]]) for field in lists.fields}


def _one_of_steps(field: ParsedFeature, lists: FeatureColumn) -> Any:
    if isinstance(field, Padded):
        return as_tensor(field.steps(lists)[0])
    values, counts = field.values_of_steps(lists)
    return field.ragged(values, counts) if isinstance(field, Rows) else sparse.of_rows(values, counts)


def _batch_of_steps(field: ParsedFeature, lists: FeatureColumn) -> Any:
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


def _find_sequences(
    blobs: Blobs, context: ParsePlan, lists: ParsePlan
) -> tuple[dict[str, FeatureColumn], dict[str, FeatureColumn]]:
    """Return the features of the context, and the feature lists, by key."""
    wanted = [*((0, key) for key in context.keys), *((1, key) for key in lists.keys)]
    found = find_columns(Shape.SEQUENCE_EXAMPLE, SEQUENCE_MESSAGE, blobs, wanted)
    n = len(context.keys)
    return dict(zip(context.keys, found[:n], strict=True)), dict(zip(lists.keys, found[n:], strict=True))


@contextmanager
def _naming(names: Any, *, alone: bool = False) -> Iterator[None]:
    """Name the record of an error.

    Args:
        names: The names of the records, the name if there is one record; `None`: they have none.
        alone: There is one record.
    """
    try:
        yield
    except (InvalidArgumentError, CorruptRecordError) as error:
        name = None if names is None or error.index is None else names if alone else names[error.index]
        path = name.decode() if isinstance(name, bytes) else name
        index = None if alone else error.index
        field, remedy = (error.field, error.remedy) if isinstance(error, InvalidArgumentError) else (None, None)
        raise InvalidArgumentError(error.what, field=field, index=index, path=path, remedy=remedy) from error
