"""Programs without a target: the `tfrecord` package, and Grain on its format ArrayRecord."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.examples import PICTURES, made
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import Steps, at_random, noise, reads
from tests.benchmarks.tfrecord import KB, file_of

BATCH = 64
GRAIN = "grain, ArrayRecord"


def tfrecord_package(path: Path, batch: int) -> Side:
    """Records as dicts of arrays, one after another, in lists; checksums are not verified."""
    loader = peer("tfrecord.reader").tfrecord_loader

    def batches() -> Iterator[list[dict[str, Any]]]:
        records = loader(str(path), None, {"image": "byte", "label": "int", "vector": "float"})
        while together := list(islice(records, batch)):
            yield together

    return Side(batches, _stacked)


def _stacked(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "image": [record["image"] for record in records],
        "label": np.concatenate([record["label"] for record in records]),
        "vector": np.stack([record["vector"] for record in records]),
    }


def examples(data: Data) -> Work:
    """Return the work of parsing Examples."""
    path, n, steps = made(data, PICTURES, "tfrecord")
    return Work(
        f"TFRecord, {n:,} Examples {PICTURES.what}, batches of {PICTURES.batch}",
        {
            "dataformats": reads(path, steps),
            "tfrecord package": lambda: tfrecord_package(path, PICTURES.batch),
        },
    )


def grain(data: Data, n: int, size: int, steps: Steps) -> Side:
    """The same records in an ArrayRecord file, each readable at random."""
    sources = peer("grain.sources")
    writer_of = peer("array_record.python.array_record_module").ArrayRecordWriter

    def make(path: Path) -> None:
        partial = path.with_suffix(".partial")
        writer = writer_of(str(partial), "group_size:1")
        for record in noise(n, size):
            writer.write(record)
        writer.close()
        partial.rename(path)

    source = sources.ArrayRecordDataSource(str(data.made(f"noise-{n}x{size}.array_record", make)))
    wanted = [list(map(int, indices)) for indices in steps]

    def batches() -> Iterator[list[bytes]]:
        for indices in wanted:
            yield source.__getitems__(indices)

    return Side(batches, lambda batch: {"value": list(batch)})


def random(data: Data) -> Work:
    """Return the work of reading random batches."""
    path, n = file_of(data, 300_000, KB)
    steps = at_random(n, BATCH, data.count(500))
    return Work(
        f"TFRecord, {n:,} × 1 KB, random batches of {BATCH}",
        {"dataformats": reads(path, steps), GRAIN: lambda: grain(data, n, KB, steps)},
    )


CASES = (
    Case("examples-tfrecord-package", examples, (Target("tfrecord package"),)),
    Case("tfrecord-random", random, (Target(GRAIN),)),
)
