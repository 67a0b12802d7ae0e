"""TFRecord: all raw records, in order, and at random."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.frames import TFRECORD_HEAD, TFRECORD_TAIL, Frames
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import Steps, at_random, in_order, noise, reads, write

KB = 1024


def file_of(data: Data, full: int, size: int) -> tuple[Path, int]:
    """Return a TFRecord of noise and how many records of `size` bytes it has."""
    n = data.count(full)
    name = f"noise-{n}x{size}.tfrecord"
    path = data.made(name, lambda path: write(path, noise(n, size), "tfrecord", payload="bytes"))
    return path, n


def tensorflow(path: Path, batch: int) -> Side:
    """Batches as string tensors; converting them to `bytes` would slow TensorFlow down."""
    tf = peer("tensorflow")

    def batches() -> Iterator[Any]:
        yield from tf.data.TFRecordDataset(str(path)).batch(batch).prefetch(tf.data.AUTOTUNE)

    return Side(batches, lambda tensor: {"value": tensor.numpy().tolist()})


def python(path: Path, steps: Steps, read: str = "read_checked") -> Side:
    """Lists of bytes, with the fastest CRC32C there is for Python."""
    crc32c = peer("google_crc32c").value
    read_batch = getattr(Frames(path, TFRECORD_HEAD, TFRECORD_TAIL), read)

    def batches() -> Iterator[list[bytes]]:
        for indices in steps:
            yield read_batch(indices, crc32c)

    return Side(batches, lambda records: {"value": records})


def sequential(data: Data, full: int, size: int, batch: int) -> Work:
    """Return the work of reading a whole file of equal records in batches."""
    path, n = file_of(data, full, size)
    steps = in_order(n, batch)
    return Work(
        f"TFRecord, {n:,} × {size // KB} KB, all raw records in order, batches of {batch}",
        {
            "dataformats": reads(path, steps),
            "tf.data": lambda: tensorflow(path, batch),
            "Python": lambda: python(path, steps),
            "Python, a pread a batch": lambda: python(path, steps, "read_window"),
        },
    )


def random(data: Data) -> Work:
    """Return the work of reading random batches of 64 records of 1 KB."""
    path, n = file_of(data, 300_000, KB)
    steps = at_random(n, 64, data.count(3_000, least=1))

    def python_at_random() -> Side:
        crc32c, frames = peer("google_crc32c").value, Frames(path, TFRECORD_HEAD, TFRECORD_TAIL)
        wanted = [numbers.tolist() for numbers in steps]

        def batches() -> Iterator[list[bytes]]:
            for numbers in wanted:
                yield [frames.read_checked(range(i, i + 1), crc32c)[0] for i in numbers]

        return Side(batches, lambda records: {"value": records})

    title = f"TFRecord, {n:,} × 1 KB, random batches of 64, warm"
    return Work(title, {"dataformats": reads(path, steps), "Python": python_at_random})


CASES = (
    Case("tfrecord-1kb-at-random", random, (Target("Python", 3),)),
    Case(
        "tfrecord-1kb",
        lambda data: sequential(data, 300_000, KB, 1024),
        (Target("tf.data", 7), Target("Python", 5), Target("Python, a pread a batch")),
    ),
    Case(
        "tfrecord-128kb",
        lambda data: sequential(data, 4_000, 128 * KB, 1024),
        (Target("tf.data", 4), Target("Python", 1.3), Target("Python, a pread a batch")),
    ),
    Case(
        "tfrecord-128kb-batches-of-64",
        lambda data: sequential(data, 4_000, 128 * KB, 64),
        (Target("tf.data", 4), Target("Python", 1.3), Target("Python, a pread a batch")),
    ),
)
