"""Costs over the number of records: to open and read a first batch, a random batch, and a step of a `Loader`."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks.harness import Data
from tests.benchmarks.ours import noise, write

NAME = "scale"
SIZES, QUICK_SIZES = (10**4, 10**5, 10**6, 10**7), (10**4, 10**5)
FORMATS = ("tfrecord", "ffrecord", "ofrecord")
RECORD_BYTES, BATCH, TRIES, STEPS = 64, 256, 3, 200


def measured(data: Data, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield microseconds a record of each operation; each file is written, read and deleted."""
    os.environ["DATAFORMATS_CACHE"] = str(data.folder / "cache")
    for n in sizes:
        for format in FORMATS:
            with tempfile.TemporaryDirectory(dir=data.folder) as folder:
                path = Path(folder, f"x.{format}")
                write(path, noise(n, RECORD_BYTES), format, payload="bytes")
                for what, seconds, records in _costs(path, n):
                    yield {"what": what, "format": format, "records": n, "us": round(seconds / records * 1e6, 4)}


def exponents(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield operation, format and the exponent of its cost in the number of records: 1 is a straight line."""
    figures: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        of_all = row["records"] if row["what"] == "open and first batch" else 1
        figures.setdefault((row["what"], row["format"]), []).append((row["records"], row["us"] * of_all))
    for name, points in figures.items():
        yield ", ".join(("exponent", *name, f"{slope(points):.2f}"))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the exponent that fits costs over sizes best; NaN of a single size."""
    if len(points) < 2:
        return float("nan")
    sizes, costs = np.log(np.maximum(np.array(points), 1e-9)).T
    return float(np.polyfit(sizes, costs, 1)[0])


def _costs(path: Path, n: int) -> Iterator[tuple[str, float, int]]:
    """Yield operations, their seconds, and the number of records to divide these by."""
    batches = np.random.default_rng(n).integers(n, size=(STEPS, BATCH))

    def first(index: int) -> None:
        dataformats.open(path, payload="bytes", index=f"{path}-{index}").read(batches[0])

    yield "open and first batch", statistics.median(_seconds(partial(first, i)) for i in range(TRIES)), n
    source = dataformats.open(path, payload="bytes")
    yield "random batch of 256", statistics.median(_seconds(partial(source.read, step)) for step in batches), BATCH
    yield "Loader step", statistics.median(_step_s(source) for _ in range(TRIES)), BATCH


def _step_s(source: dataformats.RecordSource) -> float:
    """Return the seconds of a step, without the first one of a new loader."""
    with dataformats.Loader(source, BATCH, seed=1) as loader:
        steps = islice(loader, STEPS)
        next(steps)
        return _seconds(lambda: deque(steps, maxlen=1)) / (min(STEPS, -(-len(source) // BATCH)) - 1)


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
