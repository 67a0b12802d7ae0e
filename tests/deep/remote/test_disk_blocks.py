"""A folder of blocks that several processes fill, read and shrink at once."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import time
from contextlib import suppress
from pathlib import Path

from dataformats.storage.remote.disk_blocks import DiskBlocks

LIMIT, SIZE, NAMES, PROCESSES, ROUNDS = 400_000, 4000, 300, 3, 3000


def block_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest() * (SIZE // 32)


def _use(folder: Path, seed: int) -> None:
    """Read and write blocks, damage and delete some, and end with 1 if a block is not as it was written."""
    disk, rng = DiskBlocks(folder, LIMIT), random.Random(seed)
    hits = 0
    for _ in range(ROUNDS):
        name = str(int(NAMES * rng.random() ** 2))
        found = disk.get([name], SIZE, [(0, SIZE)])[0]
        if found is None:
            disk.put([name], 0, block_of(name))
        elif found != block_of(name):
            os._exit(1)
        hits += found is not None
        if rng.random() < 0.01:
            with suppress(FileNotFoundError), open(disk._path(f"{name}\n0"), "r+b") as file:
                file.truncate(rng.randrange(SIZE))
    os._exit(0 if hits else 2)


def test_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_use, args=(tmp_path, seed)) for seed in range(PROCESSES)]
    for child in children:
        child.start()
    most = 0
    while any(child.is_alive() for child in children):
        most = max(most, _bytes_in(tmp_path))
        time.sleep(0.01)
    most = max(most, _bytes_in(tmp_path))
    assert [child.exitcode for child in children] == [0] * PROCESSES
    assert LIMIT / 2 < most <= LIMIT * (1 + PROCESSES / 8) + PROCESSES * 2 * SIZE


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.glob("*.block"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            total += path.stat().st_blocks * 512
    return total
