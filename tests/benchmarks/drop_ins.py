"""The drop-in modules beside their originals: the same loop of existing code, with one import line changed."""

from __future__ import annotations

import functools
import importlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dataformats
from tests.benchmarks.examples import PICTURES, made
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.photos import BATCH, PHOTOS

STEP = 1_000
"""Records of one step."""

Loop = Callable[[Any, Path], Iterator[dict[str, Any]]]
"""Yields what each step of a loop gives, by name; called with the module and the path of the data."""


def beside(title: str, name: str, path: Path, loop: Loop) -> Work:
    """Return the work of a loop with the drop-in module of this name, and with the original."""

    def side(module: Any) -> Side:
        return Side(lambda: loop(module, path), dict)

    return Work(
        title,
        {OURS: lambda: side(importlib.import_module(f"dataformats_compat.{name}")), name: lambda: side(peer(name))},
    )


def steps(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records of each step, each value under the number of the record and the field."""
    while step := list(itertools.islice(records, STEP)):
        yield {f"{number} {name}": value for number, record in enumerate(step) for name, value in record.items()}


# ---- tfrecord


def read_examples(tfrecord: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The loop of its README."""
    description = {"image": "byte", "label": "int", PICTURES.floats[0]: "float"}
    return steps(tfrecord.tfrecord_loader(str(path), None, description))


def write_examples(tfrecord: Any, path: Path) -> Iterator[dict[str, Any]]:
    """One record after another, into shared memory."""
    name, _ = PICTURES.floats
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else path.parent) as folder:
        writer = tfrecord.TFRecordWriter(f"{folder}/a.tfrecord")
        for record in pictures():
            values = {"image": (record["image"], "byte"), "label": (record["label"], "int")}
            writer.write({**values, name: (record[name], "float")})
        writer.close()
        yield {"bytes": Path(folder, "a.tfrecord").stat().st_size}


@functools.cache
def pictures() -> list[dict[str, Any]]:
    """Return the records to write."""
    return list(PICTURES.records(STEP))


def of_tfrecord(data: Data, what: str, loop: Loop) -> Work:
    """Return the work of a loop of the `tfrecord` package."""
    path, n, _ = made(data, PICTURES, "tfrecord")
    return beside(what.format(n=n, what=PICTURES.what), "tfrecord", path, loop)


# ---- TensorFlow


def parse_batches(tf: Any, path: Path) -> Iterator[dict[str, Any]]:
    """Batches of serialized records, parsed at once."""
    features = example_features(tf)
    records = tf.data.TFRecordDataset(str(path)).batch(PICTURES.batch)
    parsed = records.map(lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=tf.data.AUTOTUNE)
    yield from parsed.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def parse_records(tf: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The loop of most programs: each record is parsed, then batched."""
    features = example_features(tf)
    parsed = tf.data.TFRecordDataset(str(path)).map(
        lambda record: tf.io.parse_single_example(record, features), num_parallel_calls=tf.data.AUTOTUNE
    )
    yield from parsed.batch(PICTURES.batch).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def example_features(tf: Any) -> dict[str, Any]:
    """Return the features of the records."""
    name, width = PICTURES.floats
    return {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        name: tf.io.FixedLenFeature([width], tf.float32),
    }


def load_photos(tf: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The pipeline of ImageNet's examples, without random numbers, so that both give the same pixels."""
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record: Any) -> dict[str, Any]:
        values = tf.io.parse_single_example(record, features)
        image = tf.image.decode_and_crop_jpeg(values["image"], [20, 40, 320, 401], channels=3)
        image = tf.image.resize(image, [224, 224])
        image = tf.cond(values["label"] % 2 == 0, lambda: image, lambda: tf.image.flip_left_right(image))
        return {"image": tf.cast(image, tf.uint8), "label": values["label"]}

    parsed = tf.data.TFRecordDataset(str(path)).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    yield from parsed.batch(BATCH).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def copy_records(tf: Any, path: Path) -> Iterator[dict[str, Any]]:
    """Write the records that were read into shared memory."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else path.parent) as folder:
        with tf.io.TFRecordWriter(f"{folder}/a.tfrecord") as writer:
            for record in serialized(path):
                writer.write(record)
        yield {"bytes": Path(folder, "a.tfrecord").read_bytes()}


@functools.cache
def serialized(path: Path) -> list[bytes]:
    """Return the records to write."""
    return list(itertools.islice(dataformats.open(path, payload="bytes"), STEP))


def of_tensorflow(name: str, what: str, loop: Loop, at_least: float) -> Case:
    """Return the case of a loop over Examples."""

    def build(data: Data) -> Work:
        path, n, _ = made(data, PICTURES, "tfrecord")
        return beside(f"drop-in tensorflow: {n:,} Examples {PICTURES.what}, {what}", "tensorflow", path, loop)

    return Case(f"drop-in-tensorflow-{name}", build, (Target("tensorflow", at_least),))


def of_photos(data: Data) -> Work:
    """Return the work of a pipeline of photos."""
    path, n = PHOTOS.stored(data)
    return beside(f"drop-in tensorflow: {n:,} {PHOTOS.what}, cropped, resized", "tensorflow", path, load_photos)


CASES = (
    of_tensorflow("batches", "`batch(256).map(parse_example)`", parse_batches, 2),
    of_tensorflow("records", "`map(parse_single_example).batch(256)`", parse_records, 1),
    of_tensorflow("writing", f"`TFRecordWriter` of {STEP:,}", copy_records, 1),
    Case("drop-in-tensorflow-photos", of_photos, (Target("tensorflow", 1),)),
    Case(
        "drop-in-tfrecord",
        lambda data: of_tfrecord(data, "drop-in tfrecord: {n:,} Examples {what}, `tfrecord_loader`", read_examples),
        (Target("tfrecord", 1),),
    ),
    Case(
        "drop-in-tfrecord-writing",
        lambda data: of_tfrecord(
            data, f"drop-in tfrecord: {STEP:,} Examples {{what}}, `TFRecordWriter`", write_examples
        ),
        (Target("tfrecord", 1),),
    ),
)
