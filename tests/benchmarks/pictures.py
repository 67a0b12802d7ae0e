"""The data of the loader benchmarks: pictures with a label, generated or looked up by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.harness import Data, UnequalError
from tests.benchmarks.ours import write

BATCH = 256
SHAPE = (3, 64, 64)
SIZE = 3 * 64 * 64
SPEC = {"image": "uint8[3,64,64]", "label": "int64"}
_BLOCK = 1000
_RECORDS = 60_000


class Batch(NamedTuple):
    """A batch of any loader: images uint8[B, 3, 64, 64] and labels int64[B]; the label is the number of the record."""

    images: Any
    labels: Any


def count(data: Data) -> int:
    """Return the number of pictures."""
    return data.count(_RECORDS, least=BATCH + 1)


@cache
def images(n: int) -> NDArray[np.uint8]:
    """Return uint8[n, 3, 64, 64], noise, the same every time."""
    made = np.empty((n, *SHAPE), np.uint8)
    rng = np.random.default_rng(_RECORDS)
    for begin in range(0, n, _BLOCK):
        made[begin : begin + _BLOCK] = rng.integers(0, 256, (_BLOCK, *SHAPE), np.uint8)[: n - begin]
    return made


def records(n: int) -> Iterator[dict[str, Any]]:
    """Yield the pictures as records."""
    return ({"image": image, "label": label} for label, image in enumerate(images(n)))


def stored(data: Data, format: str, suffix: str, **options: Any) -> tuple[Path, int]:
    """Return a dataset of the pictures, and their number."""
    n = count(data)
    path = data.made(f"pictures-{n}.{suffix}", lambda path: write(path, records(n), format, spec=SPEC, **options))
    return path, n


def raw(data: Data, suffix: str, make: Callable[[Path, Iterator[bytes]], None]) -> Path:
    """Return a file of the pictures as bytes, the image and then the label, which `make` writes."""
    n = count(data)
    blobs = (image.tobytes() + label.to_bytes(8, "little") for label, image in enumerate(images(n)))
    return data.made(f"pictures-raw-{n}.{suffix}", lambda path: make(path, blobs))


def parsed(blobs: list[bytes]) -> Batch:
    """Parse such bytes as a batch."""
    rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), SIZE + 8)
    labels = rows[:, SIZE:].copy().view(np.int64)[:, 0]
    return Batch(rows[:, :SIZE].reshape(-1, *SHAPE), labels)


def each_once(n: int, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield these batches, and check that each record comes exactly once.

    Raises:
        UnequalError: One does not.
    """
    labels = []
    for batch in batches:
        labels.append(np.asarray(batch.labels))
        yield batch
    seen = np.bincount(np.concatenate(labels), minlength=n)
    if len(seen) != n or (seen != 1).any():
        raise UnequalError(f"{int((seen != 1).sum())} of {n} records did not come exactly once")


def checked(n: int, batch: Batch) -> dict[str, Any]:
    """Return facts that must be equal on all sides: number of pictures, and if each one matches its label."""
    labels = np.asarray(batch.labels)
    return {"records": len(labels), "right": np.array_equal(np.asarray(batch.images), images(n)[labels])}
