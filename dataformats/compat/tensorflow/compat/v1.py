"""`tf.compat.v1`: the names of TensorFlow 1 that read TFRecords, besides the names of TensorFlow 2.

Datasets are iterated as in TensorFlow 2: there are no graphs and no sessions.
"""

from __future__ import annotations

import sys
from typing import Any

from dataformats.compat.tensorflow import io as _io
from dataformats.compat.tensorflow import python_io, sparse
from dataformats.compat.tensorflow.arrays import cast
from dataformats.compat.tensorflow.functions import numpy_function
from dataformats.compat.tensorflow.gfile import exists, glob, isdir
from dataformats.compat.tensorflow.io import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_raw,
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
    parse_tensor,
    read_file,
    serialize_tensor,
)
from dataformats.compat.tensorflow.random import set_seed, uniform

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "decode_raw",
    "enable_eager_execution",
    "enable_v2_behavior",
    "gfile",
    "parse_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "py_func",
    "python_io",
    "random_uniform",
    "read_file",
    "serialize_tensor",
    "set_random_seed",
    "sparse_tensor_to_dense",
    "to_float",
    "to_int32",
    "to_int64",
]

sparse_tensor_to_dense: Any = sparse.to_dense
random_uniform = uniform
set_random_seed = set_seed
py_func = numpy_function


class gfile:  # noqa: N801  # its name
    """The file functions of TensorFlow 1."""

    GFile: Any = _io.gfile.GFile
    FastGFile: Any = GFile
    Open: Any = GFile
    Glob: Any = staticmethod(glob)
    Exists: Any = staticmethod(exists)
    IsDirectory: Any = staticmethod(isdir)
    ListDirectory: Any = staticmethod(_io.gfile.listdir)
    MakeDirs: Any = staticmethod(_io.gfile.makedirs)


def to_float(x: Any, name: Any = None) -> Any:
    """Return `tf.cast(x, tf.float32)`."""
    return cast(x, "float32")


def to_int32(x: Any, name: Any = None) -> Any:
    """Return `tf.cast(x, tf.int32)`."""
    return cast(x, "int32")


def to_int64(x: Any, name: Any = None) -> Any:
    """Return `tf.cast(x, tf.int64)`."""
    return cast(x, "int64")


def enable_eager_execution(*ignored: Any, **named: Any) -> None:
    """Do nothing: there is no other execution."""


def enable_v2_behavior() -> None:
    """Do nothing: there is no other behavior."""


_VERSION_2 = __name__.removesuffix(".compat.v1")


def __getattr__(name: str) -> Any:
    return getattr(sys.modules[_VERSION_2], name)  # imported before this module, which it imports
