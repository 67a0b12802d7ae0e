"""Processes that share blocks in shared memory or on the disk are killed while they request, wait, write and evict."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.storage.remote import block_cache, node_folder
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.disk_blocks import DiskBlocks
from tests.campaign import SEED, share
from tests.storage.remote.slow_files import SlowFiles
from tests.storage.remote.test_block_cache import read
from tests.waiting import wait_until

BLOCK, SIZE, LIMIT = 32 * 2**10, 12 * 2**20 + 777, 5 * 2**20
PROCESSES, KILLS = 4, share(40)


def _use(file: Any, data: bytes, name: str | None, seed: int) -> None:
    """Read and fetch until killed; end with 1 if bytes differ."""
    cache, rng = BlockCache(LIMIT, BLOCK, name), random.Random(seed)
    while True:
        at = int(len(data) * rng.random() ** 2)
        length = min(rng.choice((100, 12_000, 900_000)), len(data) - at)
        if rng.random() < 0.3:
            cache.fetch([(file, at, length)])
        if read(cache, (file, at, length)) != [data[at : at + length]]:
            os._exit(1)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_kills(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(node_folder, "_MEMORY", memory)
    monkeypatch.setattr(block_cache, "_PATIENCE_S", math.inf)  # a process that waits for a killed one hangs
    data = np.random.default_rng(1).bytes(SIZE)
    (tmp_path / "data").write_bytes(data)
    log = tmp_path / "log"
    log.touch()
    file = SlowFiles(log, 0.005).file(tmp_path / "data")
    if place == "disk":
        file.disk = DiskBlocks(memory / "disk", LIMIT)
    rng, context, children = random.Random(SEED), multiprocessing.get_context("fork"), []
    for seed in range(SEED, SEED + KILLS + PROCESSES):
        name = "one" if place == "memory" else None
        child = context.Process(target=_use, args=(file, data, name, seed), daemon=True)
        child.start()
        children.append(child)
        if len(children) == PROCESSES:
            _wait_for_log(log, log.stat().st_size + rng.randrange(1500))  # some dozen requests
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
    for at in range(0, SIZE, 10**6):
        assert read(cache, (file, at, min(10**6, SIZE - at))) == [data[at : at + 10**6]]
    del cache
    assert place == "disk" or not any(memory.iterdir())


def _wait_for_log(log: Path, n_bytes: int) -> None:
    wait_until(lambda: log.stat().st_size >= n_bytes)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*.block"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            total += path.stat().st_blocks * 512
    return total
