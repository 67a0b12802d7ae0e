"""`tf.train`: the protobuf messages in TFRecords, of a descriptor pool of this package.

They parse and serialize the same bytes as TensorFlow's, and do not disturb TensorFlow in the same process.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, FEATURE_MESSAGE, SEQUENCE_MESSAGE

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


def _message(name: str) -> Any:
    return GetMessageClass(EXAMPLE_MESSAGE.DESCRIPTOR.file.message_types_by_name[name])


Example: Any = EXAMPLE_MESSAGE
"""A map of features."""
SequenceExample: Any = SEQUENCE_MESSAGE
"""A map of features, and a map of lists of features."""
Feature: Any = FEATURE_MESSAGE
"""A list of bytes, floats or integers."""
Features: Any = _message("Features")
"""A map of names to features."""
FeatureList: Any = _message("FeatureList")
"""A list of features."""
FeatureLists: Any = _message("FeatureLists")
"""A map of names to lists of features."""
BytesList: Any = _message("BytesList")
"""A list of bytes."""
FloatList: Any = _message("FloatList")
"""A list of float32."""
Int64List: Any = _message("Int64List")
"""A list of int64."""
