"""TensorFlow's names for reading and writing TFRecords, returning numpy: no TensorFlow is imported.

    import dataformats_compat.tensorflow as tf

`tf.io` writes and parses, `tf.train` has the messages, `tf.data` the datasets, `tf.image` and the operations here what
functions given to `map` use. Other names raise an `AttributeError`.

Example:
    >>> import dataformats_compat.tensorflow as tf
    >>> features = {"image": tf.io.FixedLenFeature([], tf.string), "width": tf.io.FixedLenFeature([], tf.int64)}
    >>> def parse(record):
    ...     values = tf.io.parse_single_example(record, features)
    ...     image = tf.image.resize(tf.io.decode_image(values["image"], channels=3), [32, 32])
    ...     return tf.cast(image, tf.float32) / 255, values["width"]
    >>> photos = tf.data.TFRecordDataset("tests/golden/real/photos.tfrecord").map(parse).shuffle(8).batch(2)
    >>> images, widths = next(iter(photos))
    >>> images.shape, widths.shape
    ((2, 32, 32, 3), (2,))
"""

from __future__ import annotations

from dataformats_compat.tensorflow import (
    arithmetic,
    arrays,
    autograph,
    compat,
    config,
    data,
    debugging,
    distribute,
    dtypes,
    errors,
    functions,
    image,
    io,
    lookup,
    math,
    nest,
    python_io,
    ragged,
    random,
    shapes,
    sparse,
    strings,
    train,
)
from dataformats_compat.tensorflow.arithmetic import *  # noqa: F403  # as TensorFlow has them: in both places
from dataformats_compat.tensorflow.arrays import *  # noqa: F403
from dataformats_compat.tensorflow.debugging import assert_equal, assert_greater, assert_less
from dataformats_compat.tensorflow.dtypes import NAMED, DType, as_dtype
from dataformats_compat.tensorflow.functions import *  # noqa: F403
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.shapes import *  # noqa: F403
from dataformats_compat.tensorflow.sparse import SparseTensor
from dataformats_compat.tensorflow.strings import as_string
from dataformats_compat.tensorflow.tensor import Tensor, TensorShape, TensorSpec

__version__ = "2.21.0"
"""The version of TensorFlow whose names these are."""

newaxis = None
"""An index that adds a dimension."""

globals().update(NAMED)

__all__ = [  # names of dtypes and operations
    "DType", "RaggedTensor", "SparseTensor", "Tensor", "TensorShape", "TensorSpec", "as_dtype", "as_string",
    "assert_equal", "assert_greater", "assert_less", "autograph", "compat", "config", "data", "debugging", "distribute",
    "dtypes", "errors", "image", "io", "lookup", "math", "nest", "newaxis", "python_io", "ragged", "random", "sparse",
    "strings", "train", *arrays.__all__, *functions.__all__, *arithmetic.__all__, *shapes.__all__, *NAMED,
]  # fmt: skip

__getattr__ = missing_from(__name__)
