"""A call of each function of the drop-in module for TensorFlow, by its name, for both modules.

A function takes the module. `PYTHON` names the functions that return no tensors in TensorFlow either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tests.cases import GOLDEN

__all__ = ["CALLS", "METHODS", "PYTHON", "functions_of", "plain_parts"]

PHOTOS = str(GOLDEN / "real" / "photos.tfrecord")
GRAY = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
COLOR = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
FLOATS = np.array([[0.25, -1.5], [2.0, 3.5]], np.float32)
BOOLS = np.array([True, False])


def example(tf: Any) -> bytes:
    """Return an Example of one integer."""
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))
    serialized: bytes = tf.train.Example(features=tf.train.Features(feature={"n": feature})).SerializeToString()
    return serialized


def sequence(tf: Any) -> bytes:
    """Return a SequenceExample of two steps."""
    steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[n])) for n in (3, 4)]
    lists = tf.train.FeatureLists(feature_list={"n": tf.train.FeatureList(feature=steps)})
    serialized: bytes = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    return serialized


def numbers(tf: Any) -> Any:
    return {"n": tf.io.FixedLenFeature([], tf.int64)}


def steps(tf: Any) -> Any:
    return {"n": tf.io.FixedLenSequenceFeature([], tf.int64)}


def jpeg(tf: Any) -> Any:
    return tf.io.encode_jpeg(COLOR)


def sparse(tf: Any) -> Any:
    return tf.SparseTensor([[0, 1]], [5], [2, 3])


def boxes(tf: Any) -> Any:
    size, given = [30, 40, 3], np.zeros((1, 1, 4), np.float32)
    return tf.image.sample_distorted_bounding_box(size, given, use_image_if_no_bounding_boxes=True)


Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "abs": lambda tf: tf.abs(-1.5),
    "add": lambda tf: tf.add(1, 2),
    "argmax": lambda tf: tf.argmax([1, 3, 2]),
    "argmin": lambda tf: tf.argmin([1, 3, 2]),
    "as_string": lambda tf: tf.as_string(3),
    "bitcast": lambda tf: tf.bitcast(np.float32(1), tf.int32),
    "boolean_mask": lambda tf: tf.boolean_mask([1, 2], BOOLS),
    "broadcast_to": lambda tf: tf.broadcast_to(1, [2]),
    "cast": lambda tf: tf.cast(1.5, tf.int32),
    "clip_by_value": lambda tf: tf.clip_by_value(5, 0, 3),
    "compat.v1.decode_raw": lambda tf: tf.compat.v1.decode_raw(b"ab", tf.uint8),
    "compat.v1.py_func": lambda tf: tf.compat.v1.py_func(lambda: np.int64(3), [], tf.int64),
    "compat.v1.string_split": lambda tf: tf.compat.v1.string_split(["a b"]),
    "compat.v1.string_to_number": lambda tf: tf.compat.v1.string_to_number("3"),
    "compat.v1.to_float": lambda tf: tf.compat.v1.to_float(3),
    "compat.v1.to_int32": lambda tf: tf.compat.v1.to_int32(3.5),
    "compat.v1.to_int64": lambda tf: tf.compat.v1.to_int64(3.5),
    "compat.v1.where": lambda tf: tf.compat.v1.where(BOOLS),
    "concat": lambda tf: tf.concat([[1], [2]], 0),
    "constant": lambda tf: tf.constant("a"),
    "convert_to_tensor": lambda tf: tf.convert_to_tensor(b"a"),
    "cumsum": lambda tf: tf.cumsum([1, 2]),
    "data.experimental.cardinality": lambda tf: tf.data.experimental.cardinality(tf.data.Dataset.range(3)),
    "divide": lambda tf: tf.divide(1.0, 2.0),
    "ensure_shape": lambda tf: tf.ensure_shape(1, []),
    "equal": lambda tf: tf.equal("a", "a"),
    "exp": lambda tf: tf.exp(1.0),
    "expand_dims": lambda tf: tf.expand_dims("a", 0),
    "fill": lambda tf: tf.fill([], "a"),
    "floor": lambda tf: tf.floor(1.5),
    "gather": lambda tf: tf.gather(["a", "b"], 1),
    "gather_nd": lambda tf: tf.gather_nd(["a", "b"], [1]),
    "greater": lambda tf: tf.greater(1, 2),
    "greater_equal": lambda tf: tf.greater_equal(1, 2),
    "identity": lambda tf: tf.identity("a"),
    "image.adjust_brightness": lambda tf: tf.image.adjust_brightness(COLOR, 0.1),
    "image.adjust_contrast": lambda tf: tf.image.adjust_contrast(COLOR, 1.1),
    "image.adjust_hue": lambda tf: tf.image.adjust_hue(COLOR, 0.1),
    "image.adjust_saturation": lambda tf: tf.image.adjust_saturation(COLOR, 1.1),
    "image.central_crop": lambda tf: tf.image.central_crop(COLOR, 0.5),
    "image.convert_image_dtype": lambda tf: tf.image.convert_image_dtype(COLOR, tf.float32),
    "image.crop_to_bounding_box": lambda tf: tf.image.crop_to_bounding_box(COLOR, 0, 0, 1, 1),
    "image.decode_and_crop_jpeg": lambda tf: tf.image.decode_and_crop_jpeg(jpeg(tf), [0, 0, 1, 1]),
    "image.decode_image": lambda tf: tf.image.decode_image(jpeg(tf)),
    "image.decode_jpeg": lambda tf: tf.image.decode_jpeg(jpeg(tf)),
    "image.decode_png": lambda tf: tf.image.decode_png(tf.image.encode_png(COLOR)),
    "image.encode_jpeg": jpeg,
    "image.encode_png": lambda tf: tf.image.encode_png(COLOR),
    "image.extract_jpeg_shape": lambda tf: tf.image.extract_jpeg_shape(jpeg(tf)),
    "image.flip_left_right": lambda tf: tf.image.flip_left_right(COLOR),
    "image.flip_up_down": lambda tf: tf.image.flip_up_down(COLOR),
    "image.grayscale_to_rgb": lambda tf: tf.image.grayscale_to_rgb(tf.constant(GRAY)),
    "image.hsv_to_rgb": lambda tf: tf.image.hsv_to_rgb(np.zeros((1, 1, 3), np.float32)),
    "image.is_jpeg": lambda tf: tf.image.is_jpeg(jpeg(tf)),
    "image.pad_to_bounding_box": lambda tf: tf.image.pad_to_bounding_box(COLOR, 1, 1, 6, 6),
    "image.per_image_standardization": lambda tf: tf.image.per_image_standardization(COLOR),
    "image.random_brightness": lambda tf: tf.image.random_brightness(COLOR, 0.1),
    "image.random_contrast": lambda tf: tf.image.random_contrast(COLOR, 0.5, 1.5),
    "image.random_crop": lambda tf: tf.image.random_crop(COLOR, [1, 1, 3]),
    "image.random_flip_left_right": lambda tf: tf.image.random_flip_left_right(COLOR),
    "image.random_flip_up_down": lambda tf: tf.image.random_flip_up_down(COLOR),
    "image.random_hue": lambda tf: tf.image.random_hue(COLOR, 0.1),
    "image.random_saturation": lambda tf: tf.image.random_saturation(COLOR, 0.5, 1.5),
    "image.resize": lambda tf: tf.image.resize(COLOR, [2, 2]),
    "image.resize_with_crop_or_pad": lambda tf: tf.image.resize_with_crop_or_pad(COLOR, 2, 6),
    "image.rgb_to_grayscale": lambda tf: tf.image.rgb_to_grayscale(COLOR),
    "image.rgb_to_hsv": lambda tf: tf.image.rgb_to_hsv(np.zeros((1, 1, 3), np.float32)),
    "image.rot90": lambda tf: tf.image.rot90(COLOR),
    "image.sample_distorted_bounding_box": boxes,
    "image.transpose": lambda tf: tf.image.transpose(COLOR),
    "io.decode_raw": lambda tf: tf.io.decode_raw(b"ab", tf.uint8),
    "io.matching_files": lambda tf: tf.io.matching_files(PHOTOS),
    "io.parse_example": lambda tf: tf.io.parse_example([example(tf)], numbers(tf)),
    "io.parse_sequence_example": lambda tf: tf.io.parse_sequence_example([sequence(tf)], sequence_features=steps(tf)),
    "io.parse_single_example": lambda tf: tf.io.parse_single_example(example(tf), numbers(tf)),
    "io.parse_single_sequence_example": lambda tf: tf.io.parse_single_sequence_example(
        sequence(tf), sequence_features=steps(tf)
    ),
    "io.parse_tensor": lambda tf: [
        tf.io.parse_tensor(tf.io.serialize_tensor(value), dtype)
        for value, dtype in ((3, tf.int32), ("a", tf.string), ([1.5], tf.float32))
    ],
    "io.read_file": lambda tf: tf.io.read_file(PHOTOS),
    "io.serialize_tensor": lambda tf: tf.io.serialize_tensor(3),
    "less": lambda tf: tf.less(1, 2),
    "less_equal": lambda tf: tf.less_equal(1, 2),
    "logical_and": lambda tf: tf.logical_and(True, False),
    "logical_not": lambda tf: tf.logical_not(True),
    "logical_or": lambda tf: tf.logical_or(True, False),
    "map_fn": lambda tf: tf.map_fn(lambda one: one + 1, np.arange(2)),
    "math.ceil": lambda tf: tf.math.ceil(1.5),
    "math.floordiv": lambda tf: tf.math.floordiv(5, 2),
    "math.floormod": lambda tf: tf.math.floormod(5, 2),
    "math.is_finite": lambda tf: tf.math.is_finite(1.0),
    "math.is_nan": lambda tf: tf.math.is_nan(1.0),
    "math.log": lambda tf: tf.math.log(1.0),
    "math.log1p": lambda tf: tf.math.log1p(1.0),
    "maximum": lambda tf: tf.maximum(1, 2),
    "minimum": lambda tf: tf.minimum(1, 2),
    "multiply": lambda tf: tf.multiply(1, 2),
    "negative": lambda tf: tf.negative(1),
    "not_equal": lambda tf: tf.not_equal(1, 2),
    "numpy_function": lambda tf: tf.numpy_function(lambda: b"a", [], tf.string),
    "one_hot": lambda tf: tf.one_hot(1, 3),
    "ones": lambda tf: tf.ones([]),
    "ones_like": lambda tf: tf.ones_like(3),
    "pad": lambda tf: tf.pad([1], [[1, 1]]),
    "pow": lambda tf: tf.pow(2, 3),
    "py_function": lambda tf: tf.py_function(lambda: b"a", [], tf.string),
    "ragged.constant": lambda tf: tf.ragged.constant([[1], []]),
    "ragged.stack": lambda tf: tf.ragged.stack([[1], [2, 3]]),
    "random.normal": lambda tf: tf.random.normal([]),
    "random.shuffle": lambda tf: tf.random.shuffle([1, 2]),
    "random.truncated_normal": lambda tf: tf.random.truncated_normal([]),
    "random.uniform": lambda tf: tf.random.uniform([]),
    "range": lambda tf: tf.range(3),
    "rank": lambda tf: tf.rank([1]),
    "reduce_all": lambda tf: tf.reduce_all(BOOLS),
    "reduce_any": lambda tf: tf.reduce_any(BOOLS),
    "reduce_max": lambda tf: tf.reduce_max(FLOATS),
    "reduce_mean": lambda tf: tf.reduce_mean(FLOATS),
    "reduce_min": lambda tf: tf.reduce_min(FLOATS),
    "reduce_prod": lambda tf: tf.reduce_prod(FLOATS),
    "reduce_sum": lambda tf: tf.reduce_sum(FLOATS),
    "repeat": lambda tf: tf.repeat(["a"], 2),
    "reshape": lambda tf: tf.reshape(["a"], []),
    "reverse": lambda tf: tf.reverse([1, 2], [0]),
    "math.rint": lambda tf: tf.math.rint(1.5),
    "round": lambda tf: tf.round(1.5),
    "saturate_cast": lambda tf: tf.saturate_cast(300, tf.uint8),
    "shape": lambda tf: tf.shape([1]),
    "sign": lambda tf: tf.sign(1.5),
    "size": lambda tf: tf.size([1]),
    "slice": lambda tf: tf.slice([1, 2], [0], [1]),
    "sparse.to_dense": lambda tf: tf.sparse.to_dense(sparse(tf)),
    "sparse.to_indicator": lambda tf: tf.sparse.to_indicator(sparse(tf), 7),
    "split": lambda tf: tf.split([1, 2], 2),
    "sqrt": lambda tf: tf.sqrt(4.0),
    "square": lambda tf: tf.square(4.0),
    "squeeze": lambda tf: tf.squeeze(["a"]),
    "stack": lambda tf: tf.stack(["a", "b"]),
    "strings.bytes_split": lambda tf: tf.strings.bytes_split("ab"),
    "strings.join": lambda tf: [tf.strings.join(["a", "b"]), tf.strings.join([["a"], "b"])],
    "strings.length": lambda tf: tf.strings.length("ab"),
    "strings.lower": lambda tf: tf.strings.lower("AB"),
    "strings.regex_full_match": lambda tf: tf.strings.regex_full_match("ab", "a."),
    "strings.regex_replace": lambda tf: tf.strings.regex_replace("ab", "a", "c"),
    "strings.split": lambda tf: [tf.strings.split("a b"), tf.strings.split(["a b", "c"])],
    "strings.strip": lambda tf: tf.strings.strip(tf.constant(" a")),
    "strings.substr": lambda tf: tf.strings.substr("abc", 1, 1),
    "strings.to_number": lambda tf: tf.strings.to_number("3"),
    "strings.unicode_decode": lambda tf: tf.strings.unicode_decode("ab", "UTF-8"),
    "subtract": lambda tf: tf.subtract(1, 2),
    "tile": lambda tf: tf.tile(["a"], [2]),
    "transpose": lambda tf: tf.transpose([[1, 2]]),
    "unique": lambda tf: tf.unique([1, 1, 2]),
    "unstack": lambda tf: tf.unstack(["a", "b"]),
    "where": lambda tf: tf.where(True, 1, 2),
    "zeros": lambda tf: tf.zeros([]),
    "zeros_like": lambda tf: tf.zeros_like(3),
}
"""Name to a call of the function."""

PYTHON = {
    *(
        "as_dtype",
        "assert_equal",
        "assert_greater",
        "assert_less",
        "autograph.do_not_convert",
        "autograph.set_verbosity",
    ),
    *("compat.v1.enable_eager_execution", "cond", "control_dependencies", "executing_eagerly", "function"),
    *("compat.v1.python_io.tf_record_iterator", "config.list_physical_devices", "config.set_visible_devices"),
    *("data.experimental.bucket_by_sequence_length", "data.experimental.group_by_window"),
    *("data.experimental.map_and_batch", "data.experimental.parallel_interleave"),
    *("data.experimental.sample_from_datasets", "data.experimental.shuffle_and_repeat", "data.experimental.unbatch"),
    *("data.make_one_shot_iterator", "debugging.assert_greater_equal", "debugging.assert_less_equal"),
    *("dtypes.convert", "dtypes.is_string", "dtypes.numpy_dtype", "dtypes.string_array"),  # not in TensorFlow
    *("io.gfile.GFile", "io.gfile.copy", "io.gfile.exists", "io.gfile.glob", "io.gfile.isdir", "io.gfile.listdir"),
    *("io.gfile.makedirs", "io.gfile.remove", "io.gfile.rename", "io.gfile.rmtree", "io.write_file"),
    *("nest.flatten", "nest.map_structure", "random.set_seed"),
}
"""Functions that return Python values, datasets or nothing."""

METHODS: dict[str, Call] = {
    "iteration": lambda tf: next(iter(tf.data.Dataset.from_tensors((1, "a", True, [2.5], sparse(tf))))),
    "generator": lambda tf: next(
        iter(tf.data.Dataset.from_generator(lambda: iter([(1, "a")]), output_types=(tf.int64, tf.string)))
    ),
    "results of map": lambda tf: [
        tf.data.Dataset.range(1).map(lambda _, value=value: value).get_single_element()
        for value in (5, "a", True, [1, 2], {"a": np.int32(3), "b": b"x"})
    ],
    "paths": lambda tf: next(iter(tf.data.Dataset.list_files(PHOTOS))),
    "padded texts": lambda tf: next(iter(tf.data.Dataset.from_tensors(["a"]).padded_batch(1))),
    "window": lambda tf: next(iter(next(iter(tf.data.Dataset.range(2).window(2))))),
    "rows": lambda tf: [*tf.constant([1, 2]), *tf.constant(["a", "b"]), *tf.ragged.constant([["a"], []])],
    "records": lambda tf: next(iter(tf.data.TFRecordDataset(PHOTOS))),
    "batches of records": lambda tf: next(iter(tf.data.TFRecordDataset(PHOTOS).batch(2))),
    "enumerate": lambda tf: next(iter(tf.data.Dataset.range(3).enumerate())),
    "reduce": lambda tf: tf.data.Dataset.range(3).reduce(np.int64(0), lambda total, one: total + one),
    "reduce to text": lambda tf: tf.data.Dataset.range(3).reduce("", lambda total, one: tf.strings.join([total, "a"])),
    "cardinality": lambda tf: tf.data.Dataset.range(3).cardinality(),
    "get_single_element": lambda tf: tf.data.Dataset.from_tensors("a").get_single_element(),
    "table": lambda tf: table(tf).lookup(tf.constant("a")),
    "table of several": lambda tf: table(tf).lookup(tf.constant(["a", "b"])),
    "table of texts": lambda tf: table(tf, ["x", "y"], "z").lookup(tf.constant("a")),
    "table's size": lambda tf: table(tf).size(),
    "parts of a sparse tensor": lambda tf: (sparse(tf).indices, sparse(tf).values, sparse(tf).dense_shape),
    "parts of a ragged tensor": lambda tf: (
        *((ragged := tf.ragged.constant([["a"], []])).values, ragged.row_splits, ragged.row_lengths(), ragged.nrows()),
        *(ragged.to_tensor(), ragged.bounding_shape(), ragged[0]),
    ),
    "operators": lambda tf: (tf.constant("a") + "b", tf.constant("a") == "a", tf.constant(1) < 2, -tf.constant(1)),
    "items": lambda tf: (tf.constant([1, 2])[0], tf.constant(["a", "b"])[1], tf.constant([b"a"])[0]),
}
"""Calls of methods, by what they show."""


def table(tf: Any, values: Any = (1, 2), default: Any = -1) -> Any:
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant(list(values)))
    return tf.lookup.StaticHashTable(initializer, default)


def functions_of(module: ModuleType, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, int]]:
    """Yield the names below `tf` of all functions, and what tells equal ones."""
    seen = set() if seen is None else seen
    seen.add(id(module))
    names = {"v1"} if path == "compat." else set(getattr(module, "__all__", ())) - {"v2"}
    for name in sorted(names):
        thing = getattr(module, name, None)
        if isinstance(thing, ModuleType):
            if id(thing) not in seen and thing.__name__.startswith("dataformats_compat.tensorflow"):
                yield from functions_of(thing, f"{path}{name}.", seen)
        elif isinstance(thing, FunctionType) or (callable(thing) and not isinstance(thing, type)):
            yield f"{path}{name}", id(thing)


def plain_parts(value: Any) -> Iterator[Any]:
    """Yield the parts of a result that are no tensors."""
    if hasattr(value, "dense_shape"):
        yield from plain_parts((value.indices, value.values, value.dense_shape))
    elif hasattr(value, "row_splits"):
        yield from plain_parts((value.values, value.row_splits))
    elif isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from plain_parts(part)
    elif not hasattr(value, "numpy"):
        yield value
