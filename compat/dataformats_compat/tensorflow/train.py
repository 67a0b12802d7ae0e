"""`tf.train`: the protobuf messages in TFRecords, from a descriptor pool of this package.

They parse and serialize the same bytes as TensorFlow's, and do not disturb TensorFlow in the same process.
"""

from __future__ import annotations

from dataformats_compat.tfrecord import example_pb2
from dataformats_compat.tfrecord.example_pb2 import *  # noqa: F403

__all__ = [*example_pb2.__all__]
