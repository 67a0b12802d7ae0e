"""`tf.train`: the protobuf messages in TFRecords, from a descriptor pool of this package.

They parse and serialize the same bytes as TensorFlow's, and do not disturb TensorFlow in the same process.
"""

from __future__ import annotations

from dataformats.compat.tfrecord.example_pb2 import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]
