"""Our side of every case: `open`, `read`, and the columns of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dataformats
from tests.benchmarks.harness import Side

Steps = Sequence[Sequence[int] | NDArray[np.int64]]
"""The record numbers of each batch."""


def reads(path: Path, steps: Steps, **options: Any) -> Callable[[], Side]:
    """Return a function that opens our side for these batches, all columns; the index is built beforehand."""
    return lambda: _side(path, steps, options)


def columns(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns as arrays, or as lists if they have no fixed shape."""
    return {name: column if isinstance(column, np.ndarray) else list(column) for name, column in batch.items()}


def in_order(n: int, batch: int) -> list[range]:
    """Return the batches that cover records 0 to n, the last one maybe shorter."""
    return [range(start, min(start + batch, n)) for start in range(0, n, batch)]


def at_random(n: int, batch: int, batches: int) -> list[NDArray[np.int64]]:
    """Return batches of random records, the same every time; no record repeats before all were read once."""
    rng = np.random.default_rng(n)
    passes = -(-batch * batches // n)
    order = np.concatenate([rng.permutation(n) for _ in range(passes)])
    return [order[start : start + batch] for start in range(0, batch * batches, batch)]


def write(path: Path, records: Iterable[Any], format: str, /, **options: Any) -> None:
    """Write a dataset, complete or not at all."""
    with dataformats.create(path, format, **options) as writer:
        writer.extend(records)


def noise(n: int, size: int) -> Iterator[bytes]:
    """Yield n random records of `size` bytes, the same ones every time."""
    rng = np.random.default_rng(size)
    together = max(1, (1 << 22) // size)
    for start in range(0, n, together):
        block = rng.bytes(size * min(together, n - start))
        yield from (block[at : at + size] for at in range(0, len(block), size))


def _side(path: Path, steps: Steps, options: Mapping[str, Any]) -> Side:
    source = dataformats.open(path, **options)
    assert len(source)  # builds or loads the index

    def batches() -> Iterator[dict[str, Any]]:
        for indices in steps:
            batch = source.read(indices)
            yield {name: batch[name] for name in batch.keys()}  # noqa: SIM118 - a batch is no mapping

    return Side(batches, columns)
