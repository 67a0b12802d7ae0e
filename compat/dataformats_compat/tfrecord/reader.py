"""Readers of TFRecord files: records as stored, Examples as dicts, SequenceExamples as pairs of dicts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dataformats import RecordSource
from dataformats.batch import Blobs
from dataformats.errors import CorruptRecordError, SpecError, TruncatedError
from dataformats.internals import KINDS, BlobSource, Shape, arguments_of, feature_value, parse
from dataformats_compat.tfrecord import example_pb2
from dataformats_compat.tfrecord._rows import Kinds, decode_rows, plain_value
from dataformats_compat.tfrecord.iterator_utils import sample_iterators

__all__ = [
    "FeatureKeyError", "FeatureTypeError", "TruncatedFileError", "example_loader", "extract_feature_dict",
    "multi_tfrecord_loader", "process_feature", "sequence_loader", "tfrecord_iterator", "tfrecord_loader",
]  # fmt: skip

Description = Sequence[str] | Mapping[str, str | None] | None
Shard = tuple[int, int] | None
Example = dict[str, Any]

TYPENAMES = {"byte": "bytes_list", "bytes": "bytes_list", "float": "float_list", "int": "int64_list"}
"""The types of a description, and the lists of `Feature`."""

_RECORDS = 256  # decoded together


class FeatureKeyError(SpecError, KeyError):
    """A record lacks a feature of the description, or the description has an unknown type."""


class FeatureTypeError(SpecError, TypeError):
    """A feature has another type than the description says."""


class TruncatedFileError(TruncatedError, RuntimeError):
    """A file ends within a record."""


# ---- records


def tfrecord_iterator(
    data_path: str, index_path: str | None = None, shard: Shard = None, compression_type: str | None = None
) -> Iterator[memoryview]:
    """Yield the records of a file as stored; their checksums are verified.

    Args:
        data_path: The file.
        index_path: A file that `create_index` made. With it, the iteration begins at a random record
            (`np.random.choice`) and wraps around. Its content is not needed: the package keeps indexes by itself.
        shard: `(i, n)`: the i-th of n parts, in order.
        compression_type: `"gzip"` or `None`.

    Raises:
        FormatError: The file is damaged.
        FileNotFoundError: There is no such file, or no such index.
        ValueError: Another `compression_type`.

    Example:
        >>> [len(record) for record in tfrecord_iterator("tests/golden/tfrecord/vahidk.tfrecord")][:2]
        [55, 55]
    """
    for _, blobs in _runs(data_path, index_path, shard, compression_type):
        memory = blobs.buffer.data
        for start, stop in zip(blobs.starts.tolist(), (blobs.starts + blobs.lengths).tolist(), strict=True):
            yield memory[start:stop]


def _runs(
    data_path: str, index_path: str | None, shard: Shard, compression_type: str | None
) -> Iterator[tuple[int, Blobs]]:
    """Yield records in the order of the iteration, many at once, with the number of the first of them."""
    if compression_type not in (None, "gzip"):
        raise ValueError(f"compression_type should be either 'gzip' or None, found {compression_type!r}")
    compression = compression_type or "auto"
    with arguments_of(data_path, format="tfrecord", payload="bytes", compression=compression).open_blobs() as source:
        try:
            for first, blobs in _parts(source, index_path, shard):
                for start in range(0, len(blobs), _RECORDS):
                    yield first + start, blobs.take(slice(start, start + _RECORDS))
        except TruncatedError as error:
            facts = {fact.name: getattr(error, fact.name) for fact in dataclasses.fields(TruncatedFileError)}
            raise TruncatedFileError(**facts) from error


def _parts(source: BlobSource, index_path: str | None, shard: Shard) -> Iterator[tuple[int, Blobs]]:
    if index_path is not None:
        os.stat(index_path)
    if shard is not None and shard[1] > 1:
        parts: list[RecordSource] = [source.shard(*shard)]
    elif shard is not None or index_path is None:
        first = 0
        for stored in source.scan_stored():
            yield first, stored.blobs
            first += len(stored)
        return
    else:
        start = int(np.random.choice(len(source))) if len(source) else 0
        parts = [source[start:], source[:start]]
    for part in parts:
        for batch in part.scan():
            column: Any = batch.columns["value"]
            yield int(batch.indices[0]), Blobs(column.values, column.offsets[:-1], column.lengths)


# ---- features


def process_feature(feature: Any, typename: str | None, typename_mapping: Mapping[str, str], key: str) -> Any:
    """Return the values of a `Feature` message: `float32[n]`, `int64[n]`, the only bytes value or an array of several.

    Args:
        feature: The message.
        typename: The type that it must have; `None`: any.
        typename_mapping: Types to the names of lists.
        key: The feature's name, for errors.

    Raises:
        FeatureTypeError: It has another type.
        FeatureKeyError: There is no such type.

    Example:
        >>> from dataformats_compat.tfrecord import example_pb2
        >>> feature = example_pb2.Feature(int64_list=example_pb2.Int64List(value=[3, 4]))
        >>> process_feature(feature, "int", {"int": "int64_list"}, "label")
        array([3, 4])
    """
    found = feature.WhichOneof("kind")
    if typename is not None and found != list_of(typename, typename_mapping, key):
        names = [name for name, stored in typename_mapping.items() if stored == found]
        what = f"Incompatible type {typename!r} for `{key}` (should be {names[0] if names else found!r})"
        raise FeatureTypeError(what, field=key, remedy="Change the description")
    return plain_value(feature_value(feature))


def list_of(typename: str, typename_mapping: Mapping[str, str], key: str) -> str:
    stored = typename_mapping.get(typename.strip())
    if stored is None:
        raise FeatureKeyError(f"unknown type {typename!r}: expected one of {', '.join(typename_mapping)}", field=key)
    return stored


def extract_feature_dict(features: Any, description: Description, typename_mapping: Mapping[str, str]) -> Example:
    """Return the values of a `Features` message by name; a `FeatureLists` message gives lists of values.

    Args:
        features: The message.
        description: Names, or names to types (`None`: any); empty or `None`: all features that the message has.
        typename_mapping: Types to the names of lists.

    Raises:
        FeatureKeyError: A feature of the description is missing, or there is no such type.
        FeatureTypeError: A feature has another type.
        TypeError: It is another message.
    """
    if isinstance(features, example_pb2.FeatureLists):
        entries = {key: steps.feature for key, steps in features.feature_list.items()}
    elif isinstance(features, example_pb2.Features):
        entries = {key: feature for key, feature in features.feature.items() if feature.WhichOneof("kind")}
    else:
        raise TypeError(f"expected a message Features or FeatureLists, found {type(features).__name__}")
    values: Example = {}
    for key, typename in (_types(description) or dict.fromkeys(sorted(entries))).items():
        if key not in entries:
            what = f"Key {key} doesn't exist (select from {sorted(entries)})"
            raise FeatureKeyError(what, field=key, remedy="Change the description")
        value = partial(process_feature, typename=typename, typename_mapping=typename_mapping, key=key)
        is_list = isinstance(features, example_pb2.FeatureLists)
        values[key] = [value(step) for step in entries[key]] if is_list else value(entries[key])
    return values


def _types(description: Description) -> dict[str, str | None]:
    return dict(description) if isinstance(description, Mapping) else dict.fromkeys(description or ())


def _kinds(description: Description) -> Kinds | None:
    types = _types(description)
    return {
        key: None if typename is None else KINDS[list_of(typename, TYPENAMES, key)] for key, typename in types.items()
    } or None


def _decoded(
    runs: Iterator[tuple[int, Blobs]], shape: Shape, message: Any, parts: Mapping[str, Description], path: str
) -> Iterator[tuple[Example, ...]]:
    """Yield the dicts of each record, one for each part of the message; many records are decoded at once.

    A record that is not as described is decoded by protobuf, which finds the error.
    """
    kinds = [_kinds(description) for description in parts.values()]
    for first, blobs in runs:
        try:
            rows = decode_rows(shape, message, blobs, kinds)
        except CorruptRecordError:
            rows = [None] * len(blobs)
        for position, row in enumerate(rows):
            yield _reference(blobs[position], message, parts, path, first + position) if row is None else row


def _reference(
    blob: bytes, message: Any, parts: Mapping[str, Description], path: str, index: int
) -> tuple[Example, ...]:
    try:
        record = parse(message, blob)
        found = [extract_feature_dict(getattr(record, part), types, TYPENAMES) for part, types in parts.items()]
    except (SpecError, CorruptRecordError) as error:
        error.path, error.index = path, index
        raise
    return tuple(found)


# ---- loaders


def example_loader(
    data_path: str,
    index_path: str | None,
    description: Description = None,
    shard: Shard = None,
    compression_type: str | None = None,
) -> Iterator[Example]:
    """Yield the Examples of a file as dicts: `float32[n]`, `int64[n]`, `bytes`, or an array of bytes.

    Args:
        data_path: The file: see `tfrecord_iterator`.
        index_path: The index.
        description: Names, or names to `"byte"`, `"float"` or `"int"` (`None`: any); empty or `None`: all features.
        shard: Part of the records.
        compression_type: The compression.

    Raises:
        FormatError: The file is damaged.
        FeatureKeyError: A record lacks a feature of the description, or the description has an unknown type.
        FeatureTypeError: A feature has another type than the description says.

    Example:
        >>> next(example_loader("tests/golden/tfrecord/vahidk.tfrecord", None, {"label": "int"}))
        {'label': array([0])}
    """
    runs = _runs(data_path, index_path, shard, compression_type)
    for (example,) in _decoded(runs, Shape.EXAMPLE, example_pb2.Example, {"features": description}, data_path):
        yield example


def sequence_loader(
    data_path: str,
    index_path: str | None,
    context_description: Description = None,
    features_description: Description = None,
    shard: Shard = None,
    compression_type: str | None = None,
) -> Iterator[tuple[Example, ...]]:
    """Yield the SequenceExamples of a file as pairs of dicts: the context, and the feature lists.

    The values of a feature list are a list, with the values of a feature for each step.

    Args:
        data_path: The file: see `example_loader`.
        index_path: The index.
        context_description: The features of the context.
        features_description: The feature lists.
        shard: Part of the records.
        compression_type: The compression.

    Raises: as `example_loader`.
    """
    runs = _runs(data_path, index_path, shard, compression_type)
    parts = {"context": context_description, "feature_lists": features_description}
    yield from _decoded(runs, Shape.SEQUENCE_EXAMPLE, example_pb2.SequenceExample, parts, data_path)


def tfrecord_loader(
    data_path: str,
    index_path: str | None,
    description: Description = None,
    shard: Shard = None,
    sequence_description: Description = None,
    compression_type: str | None = None,
) -> Iterator[Any]:
    """Return `sequence_loader` if there is a `sequence_description`, also an empty one; else `example_loader`."""
    if sequence_description is not None:
        return sequence_loader(
            data_path, index_path, description, sequence_description, shard=shard, compression_type=compression_type
        )
    return example_loader(data_path, index_path, description, shard=shard, compression_type=compression_type)


def multi_tfrecord_loader(
    data_pattern: str,
    index_pattern: str | None,
    splits: Mapping[str, float],
    description: Description = None,
    sequence_description: Description = None,
    compression_type: str | None = None,
    infinite: bool = True,
    shard: Shard = None,
) -> Iterator[Any]:
    """Yield records of several files, each taken by `np.random.choice` from one of them.

    Args:
        data_pattern: The files: a name in which `{}` stands for each split.
        index_pattern: Their indexes: a name in which `{}` stands for each split, or `None`.
        splits: Split to its weight.
        description: See `tfrecord_loader`.
        sequence_description: The feature lists.
        compression_type: The compression.
        infinite: Repeat each file; else the iteration ends when all are exhausted.
        shard: Part of the records of each file.
    """
    loaders = [
        partial(
            tfrecord_loader,
            data_pattern.format(split),
            None if index_pattern is None else index_pattern.format(split),
            description,
            shard=shard,
            sequence_description=sequence_description,
            compression_type=compression_type,
        )
        for split in splits
    ]
    return sample_iterators(loaders, list(splits.values()), infinite)
