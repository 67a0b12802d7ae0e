"""The drop-in `tensorflow`: operators, dtypes and bound functions match TensorFlow 2.21, whose results are typed in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dataformats_compat.tensorflow as tf
from dataformats_compat.tensorflow.compat import v1

BYTES = tf.constant(np.ones((2, 3), np.uint8))
IMAGE = tf.cast(BYTES, tf.float32)


@pytest.mark.parametrize(
    ("found", "dtype"),
    [
        (IMAGE - [0.485, 0.456, 0.406], "float32"),
        (IMAGE / np.array([0.5, 0.25, 0.125]), "float32"),
        (np.float64(1) - IMAGE, "float32"),
        (BYTES / 255, "float32"),
        (BYTES + np.array([1.5, 2.5, 3.5]), "uint8"),
        (tf.divide(BYTES, BYTES), "float32"),
        (tf.constant([1]) / 2, "float64"),
        (tf.constant([1, 2]) * [tf.constant(1.5), 2], "int32"),
        (tf.constant([True]) * np.array([2]), "bool"),
        (BYTES > 0, "bool"),
        (tf.one_hot([0], 3, on_value=5, off_value=1), "int32"),
        (tf.where([True, False], 0, tf.constant([1.0, 2.0])), "float32"),
        (tf.argmax([1, 3, 2]), "int64"),
    ],
)
def test_other_operand_takes_the_dtype_of_the_tensor(found: Any, dtype: str) -> None:
    assert found.dtype.name == dtype


def test_bfloat16_stays_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    assert (tf.cast([1.5], tf.bfloat16) * 2).dtype.name == "bfloat16"


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.constant(1) + tf.constant(1.0),
        lambda: tf.constant([1]) * 2.5,
        lambda: tf.constant([True]) * tf.constant([2]),
        lambda: BYTES / 2.0,
        lambda: -BYTES,
        lambda: tf.constant([1]) // 0,
        lambda: tf.reduce_mean([True]),
        lambda: tf.constant([1.5], tf.int32),
        lambda: tf.image.rgb_to_hsv(BYTES[:, None]),
        lambda: tf.numpy_function(lambda: np.zeros(1), [], tf.float32),
        lambda: tf.gather([1, 2], [-1]),
        lambda: v1.where([True, False], [1, 2], [3]),
    ],
)
def test_wrong_operands_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        call()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (tf.reduce_mean(tf.constant([-3, -4, -6])), -4),
        (tf.reduce_mean(tf.constant([200, 200], tf.uint8)), 200),
        (tf.constant([1, 2, 3])[tf.constant([True, False, True])], [1, 3]),
        (tf.constant([[1, 2], [3, 4]])[[0, 1]], 2),  # a list is a tuple of indices
        (tf.constant(["a", "b"]) == "a", [True, False]),
        (tf.constant([1, 2]) == [1, 2, 3], False),
        (tf.map_fn(lambda row: row[0] + row[1], (tf.constant([1, 2]), tf.constant([3, 4])), dtype=tf.int32), [4, 6]),
        (tf.gather_nd([[1, 2], [3, 4]], [[1], [0]], batch_dims=1), [2, 3]),
        (tf.gather([[1, 2], [3, 4]], [[1], [0]], batch_dims=1), [[2], [3]]),
        (tf.boolean_mask([[1, 2], [3, 4]], [True, False]), [[1, 2]]),
        (tf.repeat([1, 2], [2, 1]), [1, 1, 2]),
        (tf.unique([3, 1, 3]).idx, [0, 1, 0]),
        (tf.cumsum([1, 2, 3], exclusive=True, reverse=True), [5, 3, 0]),
        (tf.reduce_prod([2, 3]), 6),
        (tf.reduce_any([[True, False]], axis=1, keepdims=True), [[True]]),
        (tf.divide(1, 2), 0.5),
        (tf.math.ceil([1.5]), [2]),
        (tf.math.rint([2.5]), [2]),
        (tf.bitcast(tf.constant([1, 2]), tf.uint8), [[1, 0, 0, 0], [2, 0, 0, 0]]),
        (tf.ensure_shape([4, 5], 2), [4, 5]),
        (tf.strings.substr(["hello", "ab"], [1, 0], [2, 5]) == ["el", "ab"], [True, True]),
        (tf.sparse.to_indicator(tf.SparseTensor([[0, 0], [1, 1]], [2, 0], [2, 3]), 3), [[0, 0, 1], [1, 0, 0]]),
        (tf.ragged.constant([[1], [2, 3]]).row_splits, [0, 1, 3]),
        (tf.image.rgb_to_hsv(np.array([[[0, 0, 200]]], np.uint8)), [[[np.float32(2 / 3), 1, 200]]]),
        (v1.image.resize(np.arange(12, dtype=np.float32).reshape(3, 4, 1), [2, 2])[..., 0], [[0, 2], [6, 8]]),
        (
            v1.image.resize_nearest_neighbor(np.arange(4).reshape(1, 4, 1), [1, 3], align_corners=True),
            [[[0], [2], [3]]],
        ),
        (v1.where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]), [[1, 2], [7, 8]]),
        (v1.where(tf.constant(True), 3, 4), 3),
        (v1.reduce_sum([[1, 2]], reduction_indices=1, keep_dims=True), [[3]]),
        (v1.strings.split(["a b"]).indices, [[0, 0], [0, 1]]),
    ],
)
def test_values(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_a_table_gives_the_default_for_unknown_keys() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    assert table.lookup(tf.constant(["b", "z"])).tolist() == [2, -1]
    assert table.lookup(tf.ragged.constant([["a"], []])).to_list() == [[1], []]
    with pytest.raises(TypeError, match=r"expected tf\.string"):
        table.lookup([1])


def test_scalars_and_shapes_have_the_methods_of_tensors() -> None:
    image = tf.zeros([2, 3])
    assert (image.shape.as_list(), image.shape.rank, image.shape == [2, 3]) == ([2, 3], 2, True)
    assert (image.shape.is_fully_defined(), tf.TensorShape([None, 3]).is_fully_defined()) == (True, False)
    assert (image.dtype.is_floating, image[0, 0].numpy(), tf.constant(["a"])[0].numpy()) == (True, 0, b"a")
    assert (tf.compat.v2.float32, type(np.exp(image))) == (tf.float32, np.ndarray)
    kept = image
    image += 1
    assert kept.numpy().sum() == 0


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "expected"),
    [
        (tf.constant(-5, tf.int64), tf.uint64, (), 2**64 - 5),
        (tf.constant(1.5), tf.uint8, (4,), [0, 0, 192, 63]),
        (tf.constant([1, 2], tf.uint8), tf.uint16, (), 513),
    ],
)
def test_bitcast_of_scalars(value: Any, dtype: Any, shape: Any, expected: Any) -> None:
    found = tf.bitcast(value, dtype)
    assert (found.shape, found.tolist()) == (shape, expected)


def test_assertions() -> None:
    tf.debugging.assert_less([1, 2], [2, 3])
    v1.assert_less_equal([1], [1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="sizes: expected equal"):
        tf.assert_equal(1, 2, message="sizes:")


def test_py_function_returns_dtypes_of_tout() -> None:
    (found,) = tf.py_function(lambda x: np.array([7, 8]), inp=[tf.constant(1)], Tout=[tf.int64])
    assert found.tolist() == [7, 8]

    @tf.py_function(Tout=tf.int32)
    def doubled(x: Any) -> Any:
        return x.numpy() * 2

    assert doubled(tf.constant(3)).numpy() == 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 values, found 1"):
        tf.py_function(lambda: 1, [], [tf.int32, tf.int32])


GLOBAL = 1


def test_functions_keep_the_variables_of_the_call() -> None:
    global GLOBAL
    numbers, parts = tf.data.Dataset.range(1, 3), []
    for k in (1, 10, 100):
        GLOBAL = k

        def helper(x: Any) -> Any:
            return x * k  # noqa: B023

        parts += [
            numbers.map(lambda x: x * k),  # noqa: B023
            numbers.map(lambda x: helper(x)),
            numbers.map(lambda x: x * GLOBAL),  # noqa: B023
            numbers.map(functools.partial(lambda scale, x: helper(x) * scale, 1)),
            numbers.filter(lambda x: x * k < 200).map(lambda x: x * k),  # noqa: B023
            numbers.flat_map(lambda x: tf.data.Dataset.from_tensors(x * k)),  # noqa: B023
        ]
    expected = [[1, 2]] * 6 + [[10, 20]] * 6 + [[100, 200]] * 4 + [[100], [100, 200]]
    assert [[int(x) for x in part.as_numpy_iterator()] for part in parts] == expected


def test_recursive_late_and_counting_functions_run() -> None:
    def factorial(x: Any) -> Any:
        return x * factorial(x - 1) if x > 1 else x

    assert list(tf.data.Dataset.range(3, 5).map(factorial).as_numpy_iterator()) == [6, 24]
    late = tf.data.Dataset.range(1).map(lambda x: x + added)

    calls = 0

    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    scale = 1
    seen = tf.data.Dataset.range(1, 2).map(lambda x: tf.py_function(lambda v: v * scale, [counted(x)], tf.int64))
    added, scale = 5, 2  # TensorFlow calls the function of a py_function for each element
    assert [*late.as_numpy_iterator(), *seen.as_numpy_iterator(), calls] == [5, 2, 1]


def test_strings_are_split_as_by_tensorflow() -> None:
    parts = tf.compat.v1.string_split(["a b  c", ""])
    assert (parts.values.tolist(), parts.dense_shape.tolist()) == ([b"a", b"b", b"c"], [2, 3])
    assert tf.strings.bytes_split(["ab", ""]).to_list() == [[b"a", b"b"], []]
    assert tf.strings.unicode_decode(b"a\xff", "UTF-8").tolist() == [97, 65533]
    assert tf.strings.regex_full_match(["ab", "abc"], "a.").tolist() == [True, False]


def test_saturate_cast_keeps_the_nearest_number() -> None:
    assert tf.saturate_cast([300.0, -5.0, 2.7], tf.dtypes.uint8).tolist() == [255, 0, 2]


def test_functions_without_effect() -> None:
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    assert tf.autograph.experimental.do_not_convert(len) is len
    assert tf.autograph.experimental.do_not_convert()(len) is len
