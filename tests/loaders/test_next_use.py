"""A disk cache keeps what the plan reads soonest: as few blocks are requested again as a cache of its size allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats import Loader
from dataformats.loaders.next_use import PlannedUse, blob_starts
from dataformats.loaders.plan import Plan
from dataformats.loaders.ranks import streams_of_node
from dataformats.loaders.shuffle import Shuffle
from dataformats.testing.loop_over import loop_over

N, RECORD_BYTES, EPOCHS = 3000, 8000, 3
URL = "memory://next-use/x"


@pytest.fixture(scope="module")
def memory() -> Iterator[Any]:
    """24 MB in three shards."""
    with dataformats.create(URL, "tfrecord", payload="bytes", shard_records=1000, overwrite=True) as writer:
        noise = np.random.default_rng(1).bytes(N + RECORD_BYTES)
        writer.extend(noise[i : i + RECORD_BYTES] for i in range(N))
    memory = fsspec.filesystem("memory")
    yield memory
    memory.rm("/next-use", recursive=True)


@pytest.fixture
def requested(memory: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each request."""
    found: list[int] = []
    real = type(memory).cat_ranges

    def cat_ranges(self: Any, paths: Any, starts: Any, ends: Any, **options: Any) -> Any:
        found.extend(end - start for start, end in zip(starts, ends, strict=True))
        return real(self, paths, starts, ends, **options)

    monkeypatch.setattr(type(memory), "cat_ranges", cat_ranges)
    return found


def later_share(requested: list[int], folder: Path, share: float, **options: Any) -> float:
    """Return which share of the data the epochs after the first request, on average."""
    cache_bytes = int(share * N * RECORD_BYTES)
    source = dataformats.open(URL, cache=f"disk:{folder}", cache_bytes=cache_bytes)
    noise = np.random.default_rng(1).bytes(N + RECORD_BYTES)
    known = {noise[i : i + RECORD_BYTES] for i in range(N)}
    with Loader(source, 50, workers=0, **options) as loader:
        for epoch in range(EPOCHS):
            values = [bytes(value) for batch in loader for value in batch["value"]]
            assert len(values) == N
            assert set(values) == known
            if not epoch:
                requested.clear()
    held = sum(path.stat().st_blocks * 512 for path in folder.glob("*.block"))
    assert held <= cache_bytes * 1.1
    return sum(requested) / (N * RECORD_BYTES * (EPOCHS - 1))


def test_half_a_cache_requests_half_the_data(
    requested: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: dict[str, Any] = {"shuffle": "window", "block_records": 40, "window_blocks": 2}
    # The least possible is 0.5; a sixteenth of the cache is kept free, and a window is on the disk until it is read.
    assert 0.45 < later_share(requested, tmp_path / "planned", 0.5, **order) < 0.62
    monkeypatch.setattr(PlannedUse, "__call__", lambda *_, **__: None)
    assert later_share(requested, tmp_path / "recent", 0.5, **order) > 0.75


def test_systems_without_holes_delete_files(
    requested: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataformats.storage.holes._system_call", lambda: None)
    order: dict[str, Any] = {"shuffle": "window", "block_records": 40, "window_blocks": 2}
    assert later_share(requested, tmp_path, 0.5, **order) < 0.75


@loop_over("groups", [1, 3])
@loop_over("n", [1, 7, 100, 1003])
def test_places_of_blocks(n: int, groups: int) -> None:
    """In windows of one block, the first record of a block comes in the window of its place."""
    shuffle = Shuffle.of("window", 10, 1, groups)
    order = Plan.of_one(n, shuffle, 5).epoch(0, 2)
    blocks = np.arange(-(-n // 10))
    places = order.block_places(blocks, shuffle)
    assert len({*places.tolist()}) == len(blocks)
    if groups == 1:
        at = order.records(np.arange(n), shuffle) // 10
        firsts = [int(np.flatnonzero(at == block)[0]) for block in blocks]
        assert np.abs(places - firsts).max() < 10


def test_streams_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_WORLD_SIZE", "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    assert streams_of_node(3, 8, 4) == range(4)  # nothing says which ranks share a disk
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert [streams_of_node(rank, 8, 4) for rank in (0, 1, 6)] == [range(1), range(1), range(3, 4)]
    assert streams_of_node(7, 8, 6) == range(4, 6)


def test_blocks_of_all_sources(memory: Any) -> None:
    """Views, joined and concatenated sources know where their records begin."""
    source = dataformats.open(URL)
    rows = np.array([0, 999, 1000, 2999])
    (whole,) = {tuple(zip(*whole_of(source, rows), strict=True))}
    assert [row for row, _, _ in whole] == [0, 1, 2, 3]
    assert whole_of(dataformats.concat([source, source]), rows + N) == whole_of(source, rows)
    assert whole_of(source[1000:], rows[:1]) == whole_of(source, rows[2:3])


def whole_of(source: Any, indices: Any) -> tuple[list[int], list[str], list[int]]:
    found = [
        (row, one.file.name, offset)
        for one in blob_starts(source, indices)
        for row, offset in zip(one.rows.tolist(), one.offsets.tolist(), strict=True)
    ]
    rows, names, offsets = zip(*sorted(found), strict=True)
    return list(rows), list(names), list(offsets)
