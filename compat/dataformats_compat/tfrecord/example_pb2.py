"""The messages of TFRecord files, `tensorflow.Example` and its parts, without TensorFlow.

They belong to a separate descriptor pool, so TensorFlow may be in the same process.

Example:
    >>> from dataformats_compat.tfrecord import example_pb2
    >>> feature = example_pb2.Feature(int64_list=example_pb2.Int64List(value=[7]))
    >>> example = example_pb2.Example(features=example_pb2.Features(feature={"label": feature}))
    >>> example_pb2.Example.FromString(example.SerializeToString()) == example
    True
"""

from __future__ import annotations

from typing import Any

from dataformats.internals import message_class

__all__ = [
    "BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList", "Int64List",
    "SequenceExample",
]  # fmt: skip

BytesList: Any = message_class("tensorflow.BytesList")
"""`value`: any number of bytes values."""

FloatList: Any = message_class("tensorflow.FloatList")
"""`value`: any number of float32 numbers."""

Int64List: Any = message_class("tensorflow.Int64List")
"""`value`: any number of int64 numbers."""

Feature: Any = message_class("tensorflow.Feature")
"""One of `bytes_list`, `float_list` and `int64_list`."""

Features: Any = message_class("tensorflow.Features")
"""`feature`: name to `Feature`."""

FeatureList: Any = message_class("tensorflow.FeatureList")
"""`feature`: a sequence of `Feature`."""

FeatureLists: Any = message_class("tensorflow.FeatureLists")
"""`feature_list`: name to `FeatureList`."""

Example: Any = message_class("tensorflow.Example")
"""`features`: a `Features`."""

SequenceExample: Any = message_class("tensorflow.SequenceExample")
"""`context`: a `Features`; `feature_lists`: a `FeatureLists`."""

for _name in __all__:
    globals()[_name].__module__ = __name__  # pickles name a class by its module

DESCRIPTOR: Any = Example.DESCRIPTOR.file
"""Describes all of them."""
