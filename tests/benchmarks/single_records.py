"""Single records: `src[i]` beside `os.pread` and the plain Python code that makes the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE
from tests.benchmarks import ffrecord, tfrecord
from tests.benchmarks.frames import TFRECORD_HEAD, TFRECORD_TAIL, Frames
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import at_random, write

KB = 1024
TOGETHER = 256
"""How many records a step reads, one after the other: the harness looks at the clock before and after a step."""
DIGITS = {"image": "uint8[8,8]", "label": "int64"}
FLOATS, INTEGERS = [f"f{i}" for i in range(13)], [f"i{i}" for i in range(27)]
NUMBERS = dict.fromkeys(FLOATS, "float32") | dict.fromkeys(INTEGERS, "int64")
N_EXAMPLES = 60_000


def one_by_one(read: Callable[[int], Any], steps: list[list[int]], plain: Callable[[Any], Any] = list) -> Side:
    """Return a side that reads the records of each step one by one."""

    def batches() -> Iterator[list[Any]]:
        for numbers in steps:
            yield [read(number) for number in numbers]

    return Side(batches, lambda records: {"records": plain(records)})


def steps_of(data: Data, n: int) -> list[list[int]]:
    """Return random record numbers."""
    return [numbers.tolist() for numbers in at_random(n, TOGETHER, data.count(40))]


def ours(path: Path, steps: list[list[int]], plain: Callable[[Any], Any] = list, **options: Any) -> Side:
    """Return our side; the index is built beforehand."""
    source = dataformats.open(path, **options)
    assert source[0] is not None
    return one_by_one(source.__getitem__, steps, plain)


def of_ffrecord(data: Data) -> Work:
    """Return the work of reading records of 1 KB of an FFRecord."""
    path, n = ffrecord.file_of(data, KB)
    steps = steps_of(data, n)
    return Work(
        f"FFRecord, {n:,} × 1 KB, src[i] at random",
        {
            "dataformats": lambda: ours(path, steps),
            ffrecord.IN_MEMORY: lambda: ours(path, steps, cache="memory"),
            "Python": lambda: one_by_one(ffrecord.Records(path).read, steps),
        },
    )


def of_tfrecord(data: Data) -> Work:
    """Return the work of reading raw records of 1 KB of a TFRecord."""
    path, n = tfrecord.file_of(data, 300_000, KB)
    steps = steps_of(data, n)

    def python() -> Side:
        crc32c, frames = peer("google_crc32c").value, Frames(path, TFRECORD_HEAD, TFRECORD_TAIL)
        return one_by_one(lambda i: frames.read_checked(range(i, i + 1), crc32c)[0], steps)

    title = f"TFRecord, {n:,} × 1 KB, src[i] at random"
    return Work(title, {"dataformats": lambda: ours(path, steps), "Python": python})


def of_examples(data: Data, spec: dict[str, str], what: str, value: Callable[[Any], dict[str, Any]]) -> Work:
    """Return the work of reading Examples to dicts."""
    n = data.count(N_EXAMPLES)
    name = f"single-{len(spec)}-{n}.tfrecord"
    path = data.made(name, lambda path: write(path, examples(n, spec), "tfrecord", spec=spec))
    steps = steps_of(data, n)

    def python() -> Side:
        frames, parse = Frames(path, TFRECORD_HEAD, TFRECORD_TAIL), EXAMPLE_MESSAGE.FromString

        def read(i: int) -> dict[str, Any]:
            return value(parse(frames.read(range(i, i + 1))[0]).features.feature)

        return one_by_one(read, steps, comparable)

    return Work(
        f"TFRecord, {n:,} Examples {what}, src[i] at random",
        {"dataformats": lambda: ours(path, steps, comparable), "protobuf (upb)": python},
    )


def examples(n: int, spec: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield n records, the same ones every time."""
    rng = np.random.default_rng(n)
    for _ in range(n):
        record: dict[str, Any] = {name: int(rng.integers(2**31)) for name, kind in spec.items() if kind == "int64"}
        record |= {name: float(np.float32(rng.random())) for name, kind in spec.items() if kind == "float32"}
        yield record | ({"image": rng.integers(0, 17, (8, 8), np.uint8)} if "image" in spec else {})


def comparable(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records with lists for arrays, which `==` compares."""
    return [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in record.items()} for record in records]


def digit(features: Any) -> dict[str, Any]:
    """Return a digit as a dict."""
    image = np.frombuffer(features["image"].bytes_list.value[0], np.uint8).reshape(8, 8)
    return {"image": image, "label": features["label"].int64_list.value[0]}


def numbers_of(features: Any) -> dict[str, Any]:
    """Return 40 numbers as a dict."""
    record = {name: features[name].float_list.value[0] for name in FLOATS}
    for name in INTEGERS:
        record[name] = features[name].int64_list.value[0]
    return record


def _case(name: str, build: Callable[[Data], Work], *rows: Target) -> Case:
    return Case(name, build, rows, one_thread=True)


CASES = (
    _case("single-ffrecord-1kb", of_ffrecord, Target("Python", 0.3), Target("Python", None, ffrecord.IN_MEMORY)),
    _case("single-tfrecord-1kb", of_tfrecord, Target("Python")),
    _case(
        "single-digits",
        lambda data: of_examples(data, DIGITS, "{uint8[8,8], int64}", digit),
        Target("protobuf (upb)", 0.7),
    ),
    _case(
        "single-40-numbers",
        lambda data: of_examples(data, NUMBERS, "of 13 floats and 27 integers", numbers_of),
        Target("protobuf (upb)", 1.5),
    ),
)
