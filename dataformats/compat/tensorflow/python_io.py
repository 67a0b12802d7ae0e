"""`tf.python_io`, from TensorFlow 1: write records, and iterate over a file's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataformats.compat.tensorflow.data.record_dataset import records_of
from dataformats.compat.tensorflow.io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Yield the records of a file.

    Args:
        path: Its path.
        options: `TFRecordOptions`, or a compression type; `None`: as the file itself says.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The file is damaged, and all records before the damage were yielded.

    Example:
        >>> import dataformats.compat.tensorflow as tf
        >>> sum(1 for record in tf.python_io.tf_record_iterator("tests/golden/real/photos.tfrecord")) > 0
        True
    """
    name = TFRecordOptions.get_compression_type_string(options)
    return records_of(path, name.lower() or "auto")
