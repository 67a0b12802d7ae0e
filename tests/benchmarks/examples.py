"""Records with features, parsed into the columns of a batch: TFRecord Examples and OFRecords."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, OFRECORD_MESSAGE
from tests.benchmarks.frames import OFRECORD_HEAD, OFRECORD_TAIL, TFRECORD_HEAD, TFRECORD_TAIL, Frames
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import Steps, in_order, noise, reads, write

PICTURE_BYTES = 8192
LABELS = 1000


@dataclass(frozen=True)
class Content:
    """The content of the records.

    Attributes:
        what: Description in the table.
        spec: The spec of `create`.
        full: Number of records.
        batch: Number of records per batch.
        floats: The field of floats, and its length.
    """

    what: str
    spec: dict[str, str]
    full: int
    batch: int
    floats: tuple[str, int]

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """Yield n records, the same ones every time."""
        name, width = self.floats
        rng = np.random.default_rng(width)
        for image in noise(n, PICTURE_BYTES):
            record = {"label": int(rng.integers(LABELS)), name: rng.random(width, np.float32)}
            yield record | ({"image": image} if "image" in self.spec else {})


PICTURES = Content(
    "{8 KB bytes, int64, 128 floats}",
    {"image": "bytes", "label": "int64", "vector": "float32[128]"},
    40_000,
    256,
    ("vector", 128),
)
WAVES = Content("{64,000 floats, int64}", {"label": "int64", "wave": "float32[64000]"}, 2_000, 16, ("wave", 64_000))


def tensorflow(path: Path, content: Content) -> Side:
    """Batches parsed together, on as many threads as TensorFlow likes."""
    tf = peer("tensorflow")
    name, width = content.floats
    features = {"label": tf.io.FixedLenFeature([], tf.int64), name: tf.io.FixedLenFeature([width], tf.float32)}
    if "image" in content.spec:
        features["image"] = tf.io.FixedLenFeature([], tf.string)

    def parse(records: Any) -> Any:
        return tf.io.parse_example(records, features)

    def batches() -> Iterator[Any]:
        records = tf.data.TFRecordDataset(str(path)).batch(content.batch)
        yield from records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    return Side(batches, _plain_tensors)


def python_examples(path: Path, steps: Steps, content: Content) -> Side:
    """One record after another: `os.pread`, CRC32C, protobuf, numpy."""
    crc32c = peer("google_crc32c").value
    frames = Frames(path, TFRECORD_HEAD, TFRECORD_TAIL)
    parse = EXAMPLE_MESSAGE.FromString
    return _python(
        steps,
        lambda indices: [parse(record).features.feature for record in frames.read_checked(indices, crc32c)],
        content,
    )


def python_ofrecords(path: Path, steps: Steps, content: Content) -> Side:
    """One record after another: `os.pread`, protobuf, numpy; the format has no checksums."""
    frames = Frames(path, OFRECORD_HEAD, OFRECORD_TAIL)
    parse = OFRECORD_MESSAGE.FromString
    return _python(steps, lambda indices: [parse(record).feature for record in frames.read(indices)], content)


def _python(steps: Steps, features_of: Callable[[Any], list[Any]], content: Content) -> Side:
    name, width = content.floats

    def batches() -> Iterator[dict[str, Any]]:
        for indices in steps:
            features = features_of(indices)
            labels = np.array([feature["label"].int64_list.value[0] for feature in features])
            floats = np.empty((len(features), width), np.float32)
            for row, feature in enumerate(features):
                floats[row] = feature[name].float_list.value
            columns: dict[str, Any] = {"label": labels, name: floats}
            if "image" in content.spec:
                columns["image"] = [feature["image"].bytes_list.value[0] for feature in features]
            yield columns

    return Side(batches, dict)


def _plain_tensors(batch: Any) -> dict[str, Any]:
    columns = {name: tensor.numpy() for name, tensor in batch.items()}
    return {name: column.tolist() if column.dtype == object else column for name, column in columns.items()}


def of_tfrecord(data: Data, content: Content) -> Work:
    """Return the work of parsing a TFRecord of Examples."""
    path, n, steps = made(data, content, "tfrecord")
    return Work(
        f"TFRecord, {n:,} Examples {content.what}, batches of {content.batch} as columns",
        {
            "dataformats": reads(path, steps),
            "tf.data + parse_example": lambda: tensorflow(path, content),
            "Python": lambda: python_examples(path, steps, content),
        },
    )


def of_ofrecord(data: Data, content: Content) -> Work:
    """Return the work of parsing a file of OFRecords."""
    path, n, steps = made(data, content, "ofrecord")
    return Work(
        f"OFRecord, {n:,} × {content.what}, batches of {content.batch} as columns",
        {"dataformats": reads(path, steps), "Python": lambda: python_ofrecords(path, steps, content)},
    )


def made(data: Data, content: Content, format: str) -> tuple[Path, int, list[range]]:
    """Return a file of this content, how many records it has, and the batches."""
    n = data.count(content.full)
    name = f"{'-'.join(content.spec)}-{n}.{format}"
    path = data.made(name, lambda path: write(path, content.records(n), format, spec=content.spec))
    return path, n, in_order(n, content.batch)


CASES = (
    Case(
        "examples-pictures",
        lambda data: of_tfrecord(data, PICTURES),
        (Target("tf.data + parse_example", 3), Target("Python", 5)),
    ),
    Case(
        "examples-waves",
        lambda data: of_tfrecord(data, WAVES),
        (Target("tf.data + parse_example", 4), Target("Python", 2)),
    ),
    Case("ofrecord-pictures", lambda data: of_ofrecord(data, PICTURES), (Target("Python", 5),)),
    Case("ofrecord-waves", lambda data: of_ofrecord(data, WAVES), (Target("Python", 2),)),
)
