"""`dataformats_compat.granular` beside granular: the loops of its README."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.drop_ins import STEP, Loop, beside, steps
from tests.benchmarks.harness import Case, Data, Target, Work
from tests.benchmarks.ours import write

ROW_TYPES = {"foo": "int", "bar": "utf8", "baz": "msgpack", "abc": "jpg", "xyz": "array"}
"""The fields of its README."""
SLICE, BATCH, WORKERS = 64, 8, 2


def rows(n: int) -> Iterator[dict[str, Any]]:
    """Yield n rows of the README's dataset, with pictures that are not black."""
    rng = np.random.default_rng(n)
    for index in range(n):
        picture = np.add.outer(np.arange(60), np.arange(80))[..., None] + rng.integers(0, 60, 3)
        array = np.arange(100, dtype=np.float32) + index
        yield {"foo": index % 100, "bar": "hello", "baz": {"a": 1}, "abc": picture.astype(np.uint8), "xyz": array}


def write_rows(granular: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The writing loop of the README, into shared memory."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else path.parent) as folder:
        with granular.DatasetWriter(f"{folder}/a", ROW_TYPES, granular.encoders) as writer:
            for row in few_rows():
                writer.append(row)
        yield {file.name: file.read_bytes() for file in Path(folder, "a").iterdir()}


@functools.cache
def few_rows() -> list[dict[str, Any]]:
    """Return the rows to write."""
    return list(rows(STEP))


def read_rows(granular: Any, path: Path) -> Iterator[dict[str, Any]]:
    """Rows in random order, one after another."""
    with granular.DatasetReader(path, granular.decoders) as reader:
        yield from steps(reader[index] for index in np.random.default_rng(0).permutation(len(reader)).tolist())


def read_slices(granular: Any, path: Path) -> Iterator[dict[str, Any]]:
    """Slices in order."""
    with granular.DatasetReader(path, granular.decoders) as reader:
        for first in range(0, len(reader), SLICE):
            values = reader[first : first + SLICE]
            yield {f"{number} {name}": value for name in values for number, value in enumerate(values[name])}


def picture_and_number(row: dict[str, Any], seed: Any) -> dict[str, Any]:
    """The README's transform."""
    return {"image": row["abc"], "label": row["foo"]}


def load_batches(granular: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The loading loop of the README, from the start of the processes to their end."""
    decoders = {**granular.decoders, "utf8": bytes.decode}  # the original's function does not pickle
    with granular.DatasetReader(path, decoders) as reader:
        source = granular.sources.Transform(granular.sources.Epochs(reader, shuffle=True), picture_and_number)
        loader = iter(granular.Loader(source, batch=BATCH, workers=WORKERS))
        for _ in range(len(reader) // BATCH):
            yield next(loader)
        loader.close()


def of_granular(data: Data, what: str, loop: Loop) -> Work:
    """Return the work of a loop of granular."""
    n = data.count(8_000, least=SLICE)
    path = data.made(
        f"readme-{n}.granular", lambda path: write(path, rows(n), "granular", spec=ROW_TYPES, generation=3)
    )
    return beside(what.format(n=n), "granular", path, loop)


CASES = (
    Case(
        "drop-in-granular",
        lambda data: of_granular(data, "drop-in granular: {n:,} rows of its README, `reader[i]` at random", read_rows),
        (Target("granular", 1),),
        one_thread=True,
    ),
    Case(
        "drop-in-granular-slices",
        lambda data: of_granular(data, f"drop-in granular: {{n:,}} rows, `reader[i : i + {SLICE}]`", read_slices),
        (Target("granular", 2),),
        one_thread=True,
    ),
    Case(
        "drop-in-granular-writing",
        lambda data: of_granular(data, f"drop-in granular: {STEP:,} rows, `DatasetWriter`", write_rows),
        (Target("granular", 1),),
        one_thread=True,
    ),
    Case(
        "drop-in-granular-loader",
        lambda data: of_granular(data, f"drop-in granular: {{n:,}} rows, `Loader`, {WORKERS} processes", load_batches),
        (Target("granular", 1),),
    ),
)
