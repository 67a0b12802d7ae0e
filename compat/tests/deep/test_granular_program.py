"""A replay loop on the drop-in `granular` and on granular: chunks are written while batches are read; a run resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats_compat.granular

original = pytest.importorskip("granular")
ours = dataformats_compat.granular

SPEC = {"image": "png", "action": "array", "reward": "array", "first": "i64"}
CHUNK, WINDOW, BATCH = 16, 8, 3


def chunk(number: int) -> dict[str, Any]:
    """Return the steps of an environment, as a replay buffer stores them."""
    rng = np.random.default_rng(number)
    return {
        "image": rng.integers(0, 256, (CHUNK, 12, 3), np.uint8),  # a row for each step
        "action": rng.standard_normal((CHUNK, 4)).astype(np.float32),
        "reward": rng.standard_normal(CHUNK),
        "first": number,
    }


def collect(module: Any, folder: Path, first: int, last: int) -> None:
    """Append chunks, in shards of ten."""
    with module.ShardedDatasetWriter(folder, SPEC, module.encoders, shardlen=10) as writer:
        for number in range(first, last):
            writer.append(chunk(number), flush=number % 4 == 3)


def window(point: dict[str, Any], seed: list[int]) -> dict[str, Any]:
    """Cut a window out of a chunk."""
    start = int(np.random.default_rng(seed).integers(CHUNK - WINDOW + 1))
    part = slice(start, start + WINDOW)
    cut = {name: point[name][part] for name in ("image", "action", "reward")}
    return cut | {"first": point["first"], "start": start}


def stream(module: Any, replay: Path, offline: Path) -> tuple[Any, list[Any]]:
    """Return a loader of three parts replay, drawn at random, and one part of other data, epoch by epoch."""
    readers = [module.ShardedDatasetReader(path, module.decoders, cache_keys=("first",)) for path in (replay, offline)]
    mixed = module.sources.Mix([module.sources.Sample(readers[0], seed=1), module.sources.Epochs(readers[1])], [3, 1])
    return iter(module.Loader(module.sources.Transform(mixed, window, seed=7), BATCH, workers=1)), readers


def train(loader: Any, weights: Any, steps: int) -> Any:
    for _ in range(steps):
        batch = next(loader)
        features = np.concatenate([batch["image"].reshape(BATCH, -1) / 255, batch["action"].reshape(BATCH, -1)], 1)
        error = features @ weights - batch["reward"].sum(1) - batch["start"] - batch["first"]
        weights = weights - 1e-4 * features.T @ error
    return weights


def close(*things: Any) -> None:
    for thing in things:
        thing.close()


def run(module: Any, folder: Path) -> list[Any]:
    """Return all numbers of a program that trains, stops, collects more, and resumes."""
    replay, offline = folder / "replay", folder / "offline"
    folder.mkdir()
    collect(module, offline, 100, 107)
    collect(module, replay, 0, 14)
    loader, readers = stream(module, replay, offline)
    weights = train(loader, np.zeros(WINDOW * 12 * 3 + WINDOW * 4), 5)
    collect(module, replay, 4, 21)  # the shards are continued, while the readers are open
    found = [weights, train(loader, weights, 2)]
    state = loader.save()
    close(loader, *readers)
    loader, readers = stream(module, replay, offline)
    loader.load(state)
    found += [state["step"], len(readers[0]), train(loader, found[-1], 4), loader.consumed]
    close(loader, *readers)
    return found


def test_program_gives_the_results_of_the_original(tmp_path: Path) -> None:
    mine, theirs = run(ours, tmp_path / "ours"), run(original, tmp_path / "theirs")
    np.testing.assert_equal(mine, theirs)
    names = [path.relative_to(tmp_path / "ours") for path in (tmp_path / "ours").rglob("*.*")]
    assert all((tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes() for name in names)


def test_the_two_can_take_turns(tmp_path: Path) -> None:
    for module, first in ((original, 0), (ours, 3), (original, 5)):
        collect(module, tmp_path, first, first + 3)
    assert [row["first"] for row in dataformats.open(tmp_path)] == [0, 1, 2, 3, 4, 5, 5, 6, 7]
