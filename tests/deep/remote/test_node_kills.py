"""Processes that share blocks in shared memory or on the disk are killed while they request, wait, write and evict."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.storage.remote import node_folder
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.disk_blocks import DiskBlocks
from tests.campaign import SEED, share
from tests.storage.remote.slow_files import SlowFiles
from tests.storage.remote.test_block_cache import read

BLOCK, SIZE, LIMIT = 32 * 2**10, 12 * 2**20 + 777, 5 * 2**20
PROCESSES, KILLS, PATIENCE_S = 4, share(40), 15.0


def _use(file: Any, data: bytes, name: str | None, seed: int) -> None:
    """Read and fetch until killed; end with 1 if bytes differ, or with 2 if a read takes too long."""
    cache, rng = BlockCache(LIMIT, BLOCK, name), random.Random(seed)
    while True:
        at = int(len(data) * rng.random() ** 2)
        length = min(rng.choice((100, 12_000, 900_000)), len(data) - at)
        begin = time.monotonic()
        if rng.random() < 0.3:
            cache.fetch([(file, at, length)])
        if read(cache, (file, at, length)) != [data[at : at + length]]:
            os._exit(1)
        if time.monotonic() - begin > PATIENCE_S:
            os._exit(2)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_kills(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(node_folder, "_MEMORY", memory)
    data = np.random.default_rng(1).bytes(SIZE)
    (tmp_path / "data").write_bytes(data)
    file = SlowFiles(tmp_path / "log", 0.005).file(tmp_path / "data")
    if place == "disk":
        file.disk = DiskBlocks(memory / "disk", LIMIT)
    rng, context, children = random.Random(SEED), multiprocessing.get_context("fork"), []
    for seed in range(SEED, SEED + KILLS + PROCESSES):
        name = "one" if place == "memory" else None
        child = context.Process(target=_use, args=(file, data, name, seed), daemon=True)
        child.start()
        children.append(child)
        if len(children) == PROCESSES:
            time.sleep(rng.random() * 0.15)
            victim = children.pop(rng.randrange(PROCESSES))
            assert victim.exitcode is None
            victim.kill()
            victim.join()
    assert _bytes_in(memory) <= LIMIT * (1 + PROCESSES / 8) + PROCESSES * 2**20
    for child in children:
        assert child.exitcode is None
        child.kill()
        child.join()
    cache = BlockCache(LIMIT, BLOCK, "one" if place == "memory" else None)
    begin = time.monotonic()
    for at in range(0, SIZE, 10**6):
        assert read(cache, (file, at, min(10**6, SIZE - at))) == [data[at : at + 10**6]]
    assert time.monotonic() - begin < PATIENCE_S
    del cache
    assert place == "disk" or not any(memory.iterdir())


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.block"))
