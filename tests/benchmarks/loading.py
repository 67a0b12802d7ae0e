"""The loader: one shuffled epoch of pictures, compared with arrays in memory and with other loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks import loaders
from tests.benchmarks.harness import Case, Data, Side, Target, Work
from tests.benchmarks.pictures import BATCH, Batch, checked, count, each_once, images, stored

IN_MEMORY, MAPPED = 'dataformats, cache="memory"', 'dataformats, io="mmap"'
INDEXING = "numpy, arrays in memory"


def side_of(n: int, epoch: Callable[[], Iterator[Batch]]) -> Side:
    """Return a side that reads an epoch of `n` records and checks that each comes once."""
    return Side(lambda: each_once(n, epoch()), lambda batch: checked(n, batch))


def ours(path: Path, n: int, **options: Any) -> Side:
    """The loader with its defaults; its threads begin and end with the epoch."""
    source = dataformats.open(path, **options)
    loader = dataformats.Loader(source, BATCH, shuffle=True, seed=1)

    def epoch() -> Iterator[Batch]:
        for batch in loader:
            yield Batch(batch["image"], batch["label"])
        loader.close()

    return side_of(n, epoch)


def indexing(n: int) -> Side:
    """The limit: rows of two arrays that are in memory, picked by a permutation."""
    pictures, labels = images(n), np.arange(n)
    rng = np.random.default_rng(n)

    def epoch() -> Iterator[Batch]:
        order = rng.permutation(n)
        for begin in range(0, n, BATCH):
            rows = order[begin : begin + BATCH]
            yield Batch(pictures[rows], labels[rows])

    return side_of(n, epoch)


def loading(data: Data, format: str, suffix: str, peers: loaders.Peers, **options: Any) -> Work:
    """Return the work of an epoch."""
    path, n = stored(data, format, suffix, **options)
    return Work(
        f"Loader, {format}, {n:,} × {{uint8[3,64,64], int64}}, a shuffled epoch in batches of {BATCH}",
        {
            "dataformats": lambda: ours(path, n),
            IN_MEMORY: lambda: ours(path, n, cache="memory"),
            MAPPED: lambda: ours(path, n, io="mmap"),
            INDEXING: lambda: indexing(n),
            **{name: _opened(make, data, path) for name, make in peers.items()},
        },
    )


def _opened(make: loaders.Peer, data: Data, path: Path) -> Callable[[], Side]:
    return lambda: side_of(count(data), make(data, path))


def _case(format: str, suffix: str, peers: loaders.Peers, **options: Any) -> Case:
    rows = [Target(INDEXING, 0.75), Target(INDEXING, 0.75, IN_MEMORY), Target(INDEXING, 0.75, MAPPED)]
    rows += [Target(name, 3) for name in peers]
    return Case(f"loading-{format}", lambda data: loading(data, format, suffix, peers, **options), tuple(rows))


CASES = (
    _case("ffrecord", "ffr", {"ffrecord's way, DataLoader": loaders.ffrecord}, payload="example"),
    _case("tfrecord", "tfrecord", {"tf.data": loaders.tensorflow, "grain, ArrayRecord": loaders.grain}),
    _case("syrah", "syr", {"syrah's way, DataLoader": loaders.syrah}),
    _case("granular", "granular", {"granular": loaders.granular}, generation=3),
    Case(
        "loading-tfrecord-other-programs",
        lambda data: loading(
            data, "tfrecord", "tfrecord", {"tfrecord package": loaders.tfrecord, "webdataset": loaders.webdataset}
        ),
        (Target("tfrecord package", 3), Target("webdataset", 3)),
    ),
)
