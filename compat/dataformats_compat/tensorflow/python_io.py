"""`tf.python_io`, from TensorFlow 1: write records, and iterate over a file's."""

from __future__ import annotations

from dataformats_compat.tensorflow.io import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]
