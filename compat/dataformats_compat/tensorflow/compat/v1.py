"""`tf.compat.v1`: the names of TensorFlow 1 that read TFRecords, besides the names of TensorFlow 2.

Datasets are iterated as in TensorFlow 2: there are no graphs and no sessions.
"""

from __future__ import annotations

import functools
import logging as _logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats_compat.tensorflow import arithmetic, arrays, debugging, functions, python_io, shapes, sparse
from dataformats_compat.tensorflow import gfile as _gfile
from dataformats_compat.tensorflow import image as _image
from dataformats_compat.tensorflow import io as _io
from dataformats_compat.tensorflow import math as _math
from dataformats_compat.tensorflow import random as _random
from dataformats_compat.tensorflow import strings as _strings
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.resizing import resize, resize_from_corners
from dataformats_compat.tensorflow.tensor import array_of

__all__ = [
    "decode_raw", "enable_eager_execution", "enable_v2_behavior", "gfile", "image", "logging", "py_func", "python_io",
    "random_crop", "random_normal", "random_shuffle", "random_uniform", "set_random_seed", "sparse_tensor_to_dense",
    "string_split", "string_to_number", "strings", "substr", "to_float", "to_int32", "to_int64", "truncated_normal",
    "where",
]  # fmt: skip

sparse_tensor_to_dense: Any = sparse.to_dense
random_uniform: Any = _random.uniform
random_normal: Any = _random.normal
random_shuffle: Any = _random.shuffle
truncated_normal: Any = _random.truncated_normal
random_crop: Any = _image.random_crop
set_random_seed: Any = _random.set_seed
py_func: Any = functions.numpy_function
substr: Any = _strings.substr
to_float: Any = functools.partial(arrays.cast, dtype="float32")
to_int32: Any = functools.partial(arrays.cast, dtype="int32")
to_int64: Any = functools.partial(arrays.cast, dtype="int64")


def _renamed(function: Callable[..., Any], names: dict[str, str]) -> Callable[..., Any]:
    """Return a function that also takes the names that its arguments had in TensorFlow 1."""

    @functools.wraps(function)
    def renamed(*args: Any, **named: Any) -> Any:
        return function(*args, **{names.get(name, name): value for name, value in named.items()})

    return renamed


_AXES = {"reduction_indices": "axis", "keep_dims": "keepdims"}
_RENAMED: dict[str, Callable[..., Any]] = {
    name: _renamed(getattr(arithmetic, name), _AXES) for name in arithmetic.__all__ if name.startswith("reduce_")
} | {
    "argmax": _renamed(arithmetic.argmax, {"dimension": "axis"}),
    "argmin": _renamed(arithmetic.argmin, {"dimension": "axis"}),
    "expand_dims": _renamed(shapes.expand_dims, {"dim": "axis"}),
    "squeeze": _renamed(shapes.squeeze, {"squeeze_dims": "axis"}),
}
decode_raw: Any = _renamed(_io.decode_raw, {"bytes": "input_bytes"})
string_to_number: Any = _renamed(_strings.to_number, {"string_tensor": "input"})


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Return values of `x` where a condition is true, else of `y`: a condition of one dimension chooses rows.

    Raises:
        InvalidArgumentError: The shapes of `x` and `y`, or of the condition, differ.
    """
    if x is None or y is None:
        return arrays.where(condition, x, y)
    chosen, shape = array_of(condition), np.shape(x)
    if shape != np.shape(y) or (chosen.ndim and chosen.shape not in (shape, shape[:1])):
        found = f"{chosen.shape}, {shape} and {np.shape(y)}"
        raise InvalidArgumentError(f"where: expected a condition and two values of one shape, found {found}")
    return arrays.where(chosen.reshape((*chosen.shape, *[1] * (len(shape) - chosen.ndim))), x, y)


def _strings_split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None
) -> Any:
    rows = _strings.split(np.atleast_1d(array_of(source if input is None else input)), sep, maxsplit)
    return sparse.of_rows(rows.values, rows.row_lengths()) if result_type == "SparseTensor" else rows


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: str = " ", result_type: str = "SparseTensor"
) -> Any:
    """Return the parts of several strings, without the empty ones, as a `SparseTensor` or a `RaggedTensor`.

    Args:
        source: Strings, (n,).
        sep: The separator; `None`: `delimiter`. An empty one splits into bytes.
        skip_empty: False keeps empty parts.
        delimiter: The separator if `sep` is `None`.
        result_type: `"SparseTensor"` or `"RaggedTensor"`.
    """
    between = str(delimiter if sep is None else sep)
    parts = _strings.split(source, between) if between else _strings.bytes_split(source)
    rows = _strings.rows([[part for part in row if part or not skip_empty] for row in parts.to_list()])
    return sparse.of_rows(rows.values, rows.row_lengths()) if result_type == "SparseTensor" else rows


def _resize_by(method: str) -> Callable[..., Any]:
    def resized(
        images: Any, size: Any, align_corners: bool = False, name: Any = None, half_pixel_centers: bool = False
    ) -> Any:
        if half_pixel_centers and not align_corners:
            return resize(images, size, method)
        return resize_from_corners(images, size, method, align_corners)

    return resized


class _Names:
    """The names of a module, some of them with the meaning of TensorFlow 1."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


image: Any = _Names(
    _image,
    resize=resize_from_corners,
    resize_images=resize_from_corners,
    resize_bilinear=_resize_by("bilinear"),
    resize_nearest_neighbor=_resize_by("nearest"),
    resize_image_with_crop_or_pad=_image.resize_with_crop_or_pad,
)
"""`tf.image`; `resize` counts from the corner of an image."""

strings: Any = _Names(_strings, split=_strings_split)
"""`tf.strings`; `split` returns a `SparseTensor`."""


_LOG = _logging.getLogger("tensorflow")
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
logging: Any = _Names(
    _LOG,
    **_LEVELS,
    warn=_LOG.warning,
    set_verbosity=_LOG.setLevel,
    get_verbosity=_LOG.getEffectiveLevel,
)
"""The logger of TensorFlow 1, `logging.getLogger("tensorflow")`."""


class gfile:  # noqa: N801  # its name
    """The file functions of TensorFlow 1."""

    GFile: Any = _gfile.GFile
    FastGFile: Any = GFile
    Open: Any = GFile
    Glob: Any = staticmethod(_gfile.glob)
    Exists: Any = staticmethod(_gfile.exists)
    IsDirectory: Any = staticmethod(_gfile.isdir)
    ListDirectory: Any = staticmethod(_gfile.listdir)
    MakeDirs: Any = staticmethod(_gfile.makedirs)


def enable_eager_execution(*ignored: Any, **named: Any) -> None:
    """Do nothing: there is no other behavior."""


enable_v2_behavior = enable_eager_execution


_VERSION_2 = __name__.removesuffix(".compat.v1")


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        return _RENAMED[name]
    version_2 = sys.modules[_VERSION_2]  # imported before this module, which it imports
    moved = next((module for module in (_math, _io, debugging) if name in module.__all__), version_2)
    return getattr(version_2 if name in version_2.__all__ else moved, name)
