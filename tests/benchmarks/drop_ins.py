"""The drop-in modules beside their originals: the same loop of existing code, with one import line changed."""

from __future__ import annotations

import functools
import importlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.examples import PICTURES, made
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer

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
        {OURS: lambda: side(importlib.import_module(f"dataformats.compat.{name}")), name: lambda: side(peer(name))},
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


CASES = (
    Case(
        "drop-in-tfrecord",
        lambda data: of_tfrecord(data, "compat.tfrecord: {n:,} Examples {what}, `tfrecord_loader`", read_examples),
        (Target("tfrecord", 1),),
    ),
    Case(
        "drop-in-tfrecord-writing",
        lambda data: of_tfrecord(
            data, f"compat.tfrecord: {STEP:,} Examples {{what}}, `TFRecordWriter`", write_examples
        ),
        (Target("tfrecord", 1),),
    ),
)
