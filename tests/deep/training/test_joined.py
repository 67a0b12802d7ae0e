"""Loaders of joined sources that stop anywhere and go on with other ranks, workers and batch sizes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats

N = 397
TRIALS = 40


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> dataformats.DecodingSource:
    folder = tmp_path_factory.mktemp("joined")
    order = np.random.default_rng(3).permutation(N + 100)
    spec = {"key": "utf8", "a": "int64"}
    with dataformats.create(folder / "a", "tfrecord", spec=spec, shard_records=200) as writer:
        writer.extend({"key": f"key {key:>{key % 20}}", "a": key} for key in order[:N].tolist())
    with dataformats.create(folder / "b.parquet", "parquet", spec={"key": "utf8", "b": "int64"}) as writer:
        writer.extend({"key": f"key {key:>{key % 20}}", "b": key} for key in range(N + 100))
    with dataformats.create(folder / "c.ffr", "ffrecord", spec={"c": "int64"}) as writer:
        writer.extend({"c": key} for key in order[:N].tolist())
    sources = {"a": dataformats.open(folder / "a"), "b": dataformats.open(folder / "b.parquet")}
    pair = dataformats.zip(sources, on="key")
    return dataformats.zip([pair, dataformats.open(folder / "c.ffr")])


@pytest.mark.timeout(900)
def test_resumed_epochs(joined: dataformats.DecodingSource, tmp_path: Path) -> None:
    """Each record comes once an epoch, with its partners, however often a run stops."""
    random.seed(26)
    for trial in range(TRIALS):
        shuffle: Any = random.choice([True, False, "window", "auto"])
        seed, state, stops = trial, None, random.randrange(1, 4)
        seen: list[int] = []
        while len(seen) < N:
            world, size = random.choice([1, 2, 3, 4]), random.choice([1, 7, 16, 33])
            workers = random.choice([0, 0, 1, 2]) if trial else 2
            kind: Any = "thread" if trial else "process"
            loaders = [
                dataformats.Loader(
                    joined, size * world, shuffle=shuffle, seed=seed, rank=rank, world_size=world,
                    drop_last=False, workers=workers, worker_type=kind,
                )
                for rank in range(world)
            ]  # fmt: skip
            if state is not None:
                for loader in loaders:
                    loader.load_state_dict(state)
            steps = random.randrange(1, 20) if stops else N
            stops -= bool(stops)
            iterators = [iter(loader) for loader in loaders]
            for _ in range(steps):
                batches = [batch for iterator in iterators if (batch := next(iterator, None)) is not None]
                for batch in batches:
                    values = [batch[name].tolist() for name in "abc"]
                    assert values[0] == values[1] == values[2]
                    seen += values[0]
                if len(seen) >= N or not batches:
                    break
            state = loaders[0].state_dict()
            for loader in loaders:
                loader.close()
        assert sorted(seen) == sorted(record["a"] for record in joined.select("a")), trial
