"""Compressed TFRecords in order: ranges of records, iteration, and the loader, beside tf.data and Python's `gzip`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.frames import TFRECORD_HEAD, TFRECORD_TAIL
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import in_order, reads, write

BATCH = 256
VOCABULARY = 4096
READ, ITERATE, LOAD = "read of ranges", "iteration", "Loader(shuffle=False)"


@dataclass(frozen=True)
class Content:
    """The content of the records.

    Attributes:
        name: Name of the file and the case.
        what: Description in the table.
        full: Number of records.
        options: Arguments of `create`.
        make: Yields n records, the same ones every time.
        features: Features of TensorFlow's parser; `None` if records are bytes.
    """

    name: str
    what: str
    full: int
    options: Mapping[str, Any]
    make: Callable[[int], Iterator[Any]]
    features: Callable[[Any], Any] | None = None


def texts(n: int) -> Iterator[bytes]:
    """Yield records of 1 KB of words; frequent words are common, as in text."""
    rng = np.random.default_rng(n)
    words = [bytes(rng.integers(97, 123, rng.integers(2, 9), np.uint8)) for _ in range(VOCABULARY)]
    for _ in range(n):
        chosen = np.minimum(rng.zipf(1.3, 320), VOCABULARY) - 1
        yield b" ".join([words[number] for number in chosen.tolist()])[:1024].ljust(1024)


def examples(n: int) -> Iterator[dict[str, Any]]:
    """Yield drawings of 28 × 28 on black, a label and a vector."""
    rng = np.random.default_rng(n)
    for _ in range(n):
        drawing = np.zeros((28, 28), np.uint8)
        drawing[6:22, 8:20] = rng.integers(0, 256, (16, 12), np.uint8) * (rng.random((16, 12)) < 0.6)
        vector = rng.normal(size=32).astype(np.float32)
        yield {"image": drawing.tobytes(), "label": int(rng.integers(10)), "vector": vector}


TEXTS = Content("1kb", "1 KB of text", 100_000, {"payload": "bytes"}, texts)
EXAMPLES = Content(
    "examples",
    "Examples {784 bytes, int64, 32 floats}",
    60_000,
    {"spec": {"image": "bytes", "label": "int64", "vector": "float32[32]"}},
    examples,
    lambda tf: {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "vector": tf.io.FixedLenFeature([32], tf.float32),
    },
)


def loader(path: Path) -> Side:
    """The loader with its defaults, in order."""
    source = dataformats.open(path)
    batches = dataformats.Loader(source, BATCH, shuffle=False, drop_last=False)

    def epoch() -> Iterator[Mapping[str, Any]]:
        yield from batches
        batches.close()

    return Side(epoch, lambda batch: {name: plain(batch[name]) for name in batch.keys()})  # noqa: SIM118


def iteration(path: Path) -> Side:
    """All records one by one, without an index."""
    source = dataformats.open(path)

    def batches() -> Iterator[list[Any]]:
        records = iter(source)
        while together := list(islice(records, BATCH)):
            yield together

    return Side(batches, stacked)


def stacked(records: list[Any]) -> dict[str, Any]:
    """Return records as columns."""
    if not isinstance(records[0], Mapping):
        return {"value": records}
    return {name: plain([record[name] for record in records]) for name in records[0]}


def plain(column: Any) -> Any:
    """Return a column of bytes as a list, and one of numbers as an array."""
    return list(column) if len(column) and isinstance(column[0], bytes) else np.asarray(column)


def tensorflow(path: Path, compression: str, content: Content) -> Side:
    """Batches of strings, or parsed together on as many threads as TensorFlow likes."""
    tf = peer("tensorflow")

    def batches() -> Iterator[Any]:
        dataset = tf.data.TFRecordDataset(str(path), compression_type=compression.upper()).batch(BATCH)
        if content.features is not None:
            features = content.features(tf)
            dataset = dataset.map(lambda records: tf.io.parse_example(records, features), tf.data.AUTOTUNE)
        yield from dataset.prefetch(tf.data.AUTOTUNE)

    def converted(batch: Any) -> dict[str, Any]:
        tensors = batch if isinstance(batch, dict) else {"value": batch}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return {name: array.tolist() if array.dtype == object else array for name, array in arrays.items()}

    return Side(batches, converted)


def python(path: Path, compression: str) -> Side:
    """Lists of bytes: Python's `gzip`, or `zlib` of the whole file; checksums are not verified."""

    def batches() -> Iterator[list[bytes]]:
        with path.open("rb") as stored:
            data = gzip.decompress(stored.read()) if compression == "gzip" else zlib.decompress(stored.read())
        at, together = 0, []
        while at < len(data):
            begin = at + TFRECORD_HEAD
            end = begin + int.from_bytes(data[at : at + 8], "little")
            together.append(data[begin:end])
            at = end + TFRECORD_TAIL
            if len(together) == BATCH:
                yield together
                together = []
        if together:
            yield together

    return Side(batches, lambda records: {"value": records})


def work(data: Data, compression: str, content: Content, way: str) -> Work:
    """Return the work of reading a whole compressed file."""
    n = data.count(content.full)
    path = data.made(
        f"{content.name}-{n}.{compression}.tfrecord",
        lambda path: write(path, content.make(n), "tfrecord", compression=compression, **content.options),
    )
    ours = {
        READ: reads(path, in_order(n, BATCH)),
        ITERATE: lambda: iteration(path),
        LOAD: lambda: loader(path),
    }[way]
    sides = {"dataformats": ours, "tf.data": lambda: tensorflow(path, compression, content)}
    if content.features is None:
        sides["Python"] = lambda: python(path, compression)
    return Work(f"TFRecord, {compression.upper()}, {n:,} × {content.what}, in order, {way}", sides)


def _case(compression: str, content: Content, way: str) -> Case:
    rows = [Target("tf.data", 2)] + ([Target("Python")] if content.features is None else [])
    name = f"{compression}-{content.name}-{way.split()[0].split('(')[0].lower()}"
    return Case(name, lambda data: work(data, compression, content, way), tuple(rows))


CASES = tuple(
    _case(compression, content, way)
    for compression, content in (("gzip", TEXTS), ("gzip", EXAMPLES), ("zlib", TEXTS))
    for way in (READ, ITERATE, LOAD)
)
