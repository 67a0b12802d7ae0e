"""`dataformats_compat.tensorflow.image` and the operations: shapes, dtypes and values match TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
import dataformats_compat.tensorflow as tf
from tests.cases import GOLDEN

PIXELS = (np.arange(6 * 8 * 3).reshape(6, 8, 3) * 7 % 256).astype(np.uint8)
PHOTOS = GOLDEN / "real" / "photos.tfrecord"


def saved(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    stream = BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def test_files_come_back() -> None:
    assert tf.io.decode_png(tf.io.encode_png(PIXELS)).tolist() == PIXELS.tolist()
    gray = tf.io.decode_image(tf.io.encode_png(PIXELS[..., :1]))
    assert gray.tolist() == PIXELS[..., :1].tolist()
    jpeg = tf.io.encode_jpeg(np.full((9, 7, 3), 100, np.uint8), quality=90)
    assert tf.io.is_jpeg(jpeg)
    assert tf.image.extract_jpeg_shape(jpeg).tolist() == [9, 7, 3]
    assert abs(tf.io.decode_jpeg(jpeg).astype(int) - 100).max() < 3
    assert [tf.io.decode_jpeg(jpeg, ratio=ratio).shape for ratio in (2, 8)] == [(5, 4, 3), (2, 1, 3)]
    window = tf.image.decode_and_crop_jpeg(jpeg, [1, 2, 3, 4], channels=1)
    assert window.tolist() == tf.io.decode_jpeg(jpeg, channels=1)[1:4, 2:6].tolist()


@pytest.mark.parametrize(
    ("pixels", "channels", "shape", "first"),
    [
        (PIXELS[..., 0], 3, (6, 8, 3), [0, 0, 0]),
        (PIXELS[..., 0], 4, (6, 8, 4), [0, 0, 0, 255]),
        (PIXELS + np.uint8(10), 1, (6, 8, 1), [15]),
        (np.dstack([PIXELS, PIXELS[..., :1] + np.uint8(9)]), 0, (6, 8, 4), [0, 7, 14, 9]),
        (np.dstack([PIXELS, PIXELS[..., :1] + np.uint8(9)]), 3, (6, 8, 3), [0, 7, 14]),
        (PIXELS[..., 0].astype(np.uint16) * 256 + 511, 0, (6, 8, 1), [1]),
    ],
)
def test_channels(pixels: Any, channels: int, shape: tuple[int, ...], first: list[int]) -> None:
    decoded = tf.io.decode_png(saved(pixels), channels=channels)
    assert (decoded.dtype, decoded.shape, decoded[0, 0].tolist()) == (np.uint8, shape, first)


def test_dtypes_of_images() -> None:
    deep = PIXELS[..., 0].astype(np.uint16) * 256 + 5
    assert tf.io.decode_png(saved(deep), dtype=tf.uint16)[..., 0].tolist() == deep.tolist()
    assert tf.io.decode_png(saved(PIXELS), dtype=tf.uint16).max() == int(PIXELS.max()) * 257
    scaled = tf.io.decode_image(saved(PIXELS), dtype=tf.float32)
    assert scaled.dtype == tf.float32
    assert np.allclose(scaled, PIXELS / 255)


@pytest.mark.parametrize("blob", [b"", b"GIF89a", saved(PIXELS)[:60], saved(PIXELS, "JPEG")[:-30]])
def test_damaged_images(blob: bytes) -> None:
    for decode in (tf.io.decode_jpeg, tf.io.decode_png, tf.image.decode_image):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(blob)


def test_wrong_arguments_of_images() -> None:
    jpeg = saved(PIXELS, "JPEG")
    call: Callable[[], object]
    for call in (
        lambda: tf.io.decode_jpeg(jpeg, channels=4),
        lambda: tf.io.decode_jpeg(jpeg, ratio=3),
        lambda: tf.io.decode_and_crop_jpeg(jpeg, [0, 0, 7, 1]),
        lambda: tf.io.encode_jpeg(PIXELS[0]),
        lambda: tf.io.encode_png(PIXELS.astype(np.float32)),
        lambda: tf.image.resize(PIXELS[0], [2, 2]),
        lambda: tf.image.resize(PIXELS, [0, 2]),
        lambda: tf.image.crop_to_bounding_box(PIXELS, 0, 0, 7, 1),
        lambda: tf.image.pad_to_bounding_box(PIXELS, 0, 0, 5, 9),
        lambda: tf.image.random_crop(PIXELS, [7, 1, 3]),
        lambda: tf.reshape(PIXELS, [5, -1]),
        lambda: tf.zeros([2]).set_shape([3]),
        lambda: tf.slice(PIXELS, [0, 0, 0], [7, 1, 1]),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call()


def test_resize() -> None:
    row = np.array([0, 4, 8, 12], np.uint8).reshape(1, 4, 1)
    across = {method: tf.image.resize(row, [1, 2], method) for method in ("bilinear", "nearest", "bicubic")}
    assert {name: one.ravel().tolist() for name, one in across.items()} == {
        "bilinear": [2, 10], "nearest": [4, 12], "bicubic": pytest.approx([1.6471, 10.3529], abs=1e-3)
    }  # fmt: skip
    assert (across["bilinear"].dtype, across["nearest"].dtype) == (np.float32, np.uint8)
    assert tf.image.resize(row, [1, 2], antialias=True).ravel().tolist() == pytest.approx([2.8571, 9.1429], abs=1e-3)
    assert tf.image.resize(PIXELS, [30, 30], preserve_aspect_ratio=True).shape == (22, 30, 3)
    batch = tf.image.resize(np.stack([PIXELS, PIXELS]), [2, 3])  # rows are chosen before they are blended
    assert batch[1].tolist() == tf.image.resize(PIXELS, [2, 3]).tolist()
    assert tf.image.resize(PIXELS, [6, 8]).tolist() == PIXELS.tolist()


def test_geometry() -> None:
    assert tf.image.flip_left_right(PIXELS).tolist() == PIXELS[:, ::-1].tolist()
    assert tf.image.flip_up_down(PIXELS).tolist() == PIXELS[::-1].tolist()
    assert tf.image.central_crop(PIXELS, 0.5).tolist() == PIXELS[1:5, 2:6].tolist()
    fitted = tf.image.resize_with_crop_or_pad(PIXELS, 4, 12)
    assert fitted.shape == (4, 12, 3)
    assert fitted[:, 2:10].tolist() == PIXELS[1:5].tolist()
    assert not fitted[:, :2].any()
    assert tf.image.rot90(PIXELS).shape == (8, 6, 3)


def test_random_geometry() -> None:
    tf.random.set_seed(0)
    flipped = [bool(tf.image.random_flip_left_right(PIXELS)[0, 0, 0] == 0) for _ in range(50)]
    assert 10 < sum(flipped) < 40
    assert {tf.image.random_crop(PIXELS, [2, 2, 3]).shape for _ in range(9)} == {(2, 2, 3)}
    box = np.array([[[0.5, 0.5, 1.0, 1.0]]], np.float32)
    for _ in range(50):
        begin, size, found = tf.image.sample_distorted_bounding_box(
            [100, 200, 3], box, min_object_covered=0.2, area_range=(0.1, 1.0)
        )
        (top, left, _), (height, width, rest) = begin.tolist(), size.tolist()
        assert top + height <= 100
        assert left + width <= 200
        assert rest == -1
        assert found.ravel().tolist() == pytest.approx(
            [top / 100, left / 200, (top + height) / 100, (left + width) / 200]
        )
        inside = max(0, top + height - max(50, top)) * max(0, left + width - max(100, left))
        assert inside >= 0.2 * 50 * 100 or (height, width) == (100, 200)
        assert height * width >= 0.09 * 20000
    with pytest.raises(tf.errors.InvalidArgumentError, match="use_image_if_no_bounding_boxes"):
        tf.image.sample_distorted_bounding_box([9, 9, 3], np.zeros((1, 0, 4)))


def test_colors() -> None:
    assert tf.image.convert_image_dtype(PIXELS, tf.float32).max() == pytest.approx(PIXELS.max() / 255)
    assert tf.image.convert_image_dtype(np.array([0.5, 2], np.float32), tf.uint8, saturate=True).tolist() == [127, 255]
    assert tf.image.adjust_brightness(PIXELS, 1.0).min() == 255
    assert tf.image.adjust_contrast(PIXELS, 1.0).tolist() == PIXELS.tolist()
    standard = tf.image.per_image_standardization(PIXELS)
    assert standard.dtype == np.float32
    assert abs(standard.mean()) < 1e-6
    floats = PIXELS.astype(np.float32) / 255
    assert np.allclose(tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(floats)), floats, atol=1e-6)
    assert np.allclose(tf.image.adjust_hue(floats, 0.0), floats, atol=1e-6)
    assert not np.ptp(tf.image.adjust_saturation(floats, 0.0), axis=-1).max() > 1e-6
    for change in (
        tf.image.random_brightness(floats, 0.1),
        tf.image.random_contrast(floats, 0.5, 1.5),
        tf.image.random_hue(floats, 0.1),
        tf.image.random_saturation(floats, 0.5, 1.5),
    ):
        assert (change.shape, change.dtype) == (floats.shape, np.float32)


# ---- operations


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (tf.concat([[1], [2, 3]], 0), [1, 2, 3]),
        (tf.concat(axis=1, values=[[[1]], [[2]]]), [[1, 2]]),
        (tf.transpose(tf.expand_dims([[1, 2]], 0), [0, 2, 1]), [[[1], [2]]]),
        (tf.stack(tf.unstack([[1, 2], [3, 4]], axis=1)), [[1, 3], [2, 4]]),
        (tf.split([1, 2, 3, 4], 2)[1], [3, 4]),
        (tf.split([1, 2, 3, 4], [1, -1])[1], [2, 3, 4]),
        (tf.squeeze([[[1], [2]]]), [1, 2]),
        (tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [-1, 2]), [[2, 3], [5, 6]]),
        (tf.pad([1], [[1, 2]]), [0, 1, 0, 0]),
        (tf.tile([[1, 2]], [2, 1]), [[1, 2], [1, 2]]),
        (tf.broadcast_to([1, 2], [2, 2]), [[1, 2], [1, 2]]),
        (tf.gather([[1, 2], [3, 4]], [1], axis=1), [[2], [4]]),
        (tf.reverse([1, 2], [0]), [2, 1]),
        (tf.one_hot([1, 5], 3), [[0, 1, 0], [0, 0, 0]]),
        (tf.one_hot(2, 3, on_value=5, off_value=1, dtype=tf.int32), [1, 1, 5]),
        (tf.where([True, False], [1, 2], [3, 4]), [1, 4]),
        (tf.where([False, True]), [[1]]),
        (tf.clip_by_value([-1.0, 0.5, 3.0], 0.0, 1.0), [0, 0.5, 1]),
        (tf.range(1, 7, 2), [1, 3, 5]),
        (tf.fill([2], 7), [7, 7]),
        (tf.ones_like([1.0, 2.0]), [1, 1]),
        (tf.reduce_sum([[1, 2], [3, 4]], axis=0), [4, 6]),
        (tf.reduce_mean([1, 2]), 1),
        (tf.math.maximum([1, 5], 3), [3, 5]),
        (tf.cond(tf.greater(2, 1), lambda: 1, lambda: 2), 1),
        (tf.py_function(lambda x: x.numpy() + 1, [tf.constant([1])], tf.int64), [2]),
        (tf.numpy_function(np.square, [np.array([3])], tf.int64), [9]),
        (tf.constant([0, 1], shape=[2, 1]), [[0], [1]]),
        (tf.shape(PIXELS)[:2], [6, 8]),
        (tf.strings.split("a b"), [b"a", b"b"]),
        (tf.strings.split(["a b", "c"]).to_tensor(), [[b"a", b"b"], [b"c", b""]]),
        (tf.strings.to_number(["1.5", "2"]), [1.5, 2]),
        (tf.strings.join(["a", ["b", "c"]], "-"), [b"a-b", b"a-c"]),
        (tf.strings.length(["ab", ""]), [2, 0]),
        (tf.strings.regex_replace("a1b22", "[0-9]+", "."), b"a.b."),
        (tf.strings.regex_replace("a1b22", "[0-9]+", ".", replace_global=False), b"a.b22"),
        (tf.sparse.to_dense(tf.cast(tf.SparseTensor([[1]], [2], [3]), tf.int64), -1), [-1, 2, -1]),
    ],
)
def test_operations(found: Any, expected: Any) -> None:
    assert (found.tolist() if hasattr(found, "tolist") else found) == expected


@pytest.mark.parametrize("indices", [[[-1, 0]], [[0, 5]], [[1, 0], [0, 0]], [[0, 0], [0, 0]]])
def test_wrong_indices_of_a_sparse_tensor(indices: list[list[int]]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"index \["):
        tf.sparse.to_dense(tf.SparseTensor(indices, [1] * len(indices), [2, 2]))


def test_ragged_tensors() -> None:
    rows = tf.RaggedTensor.from_row_splits(tf.RaggedTensor.from_row_lengths(np.arange(4), [1, 0, 3]), [0, 1, 3])
    assert (rows.to_list(), rows.shape, rows.ragged_rank, rows.dtype) == (
        [[[0]], [[], [1, 2, 3]]],
        (2, None, None),
        2,
        tf.int64,
    )
    assert rows.to_tensor(9).tolist() == [[[0, 9, 9], [9, 9, 9]], [[9, 9, 9], [1, 2, 3]]]
    assert rows.to_tensor(shape=[None, 1, 2]).tolist() == [[[0, 0]], [[0, 0]]]
    assert (rows[1, 1].tolist(), rows[1:].to_list(), rows.values.value_rowids().tolist()) == (
        [1, 2, 3],
        [[[], [1, 2, 3]]],
        [0, 2, 2, 2],
    )
    column = dataformats.Ragged(rows.values.values, rows.values.row_splits)
    assert [row.tolist() for row in column] == rows.values.to_list()
    with pytest.raises(ValueError, match="expected row splits"):
        tf.RaggedTensor.from_row_splits([1, 2], [0, 3])


# ---- a program


def test_a_pipeline_of_photos() -> None:
    features = {"image": tf.io.FixedLenFeature((), tf.string), "name": tf.io.FixedLenFeature([], tf.string, "")}

    @tf.function
    def parse(record: Any) -> Any:
        values = tf.io.parse_single_example(record, features)
        bbox = tf.constant([0.0, 0.0, 1.0, 1.0], dtype=tf.float32, shape=[1, 1, 4])
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(values["image"]), bounding_boxes=bbox, area_range=[0.3, 1.0], max_attempts=10
        )
        top, left, _ = tf.unstack(begin)
        height, width, _ = tf.unstack(size)
        image = tf.image.decode_and_crop_jpeg(values["image"], tf.stack([top, left, height, width]), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [32, 32]))
        image.set_shape([32, 32, 3])
        return tf.cast(image, tf.float32) / 255.0 - tf.reshape([0.5, 0.4, 0.3], [1, 1, 3]), values["name"]

    records = tf.data.TFRecordDataset([str(PHOTOS)]).cache().shuffle(8, seed=1)
    dataset = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(2, drop_remainder=True).prefetch(2)
    n = 0
    for images, names in dataset:
        assert (images.dtype, images.shape, names.shape) == (np.float32, (2, 32, 32, 3), (2,))
        assert -0.5 <= images.numpy().min() < images.numpy().max() <= 0.7
        n += 2
    assert n == len(dataformats.open(PHOTOS)) // 2 * 2
