"""Window orders of sources that are decoded in blocks, such as Parquet."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats import Loader
from dataformats.backends.tables.parquet import ParquetTable
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.plan import Plan, Shuffle
from dataformats.reading.table_source import TableSource

N, ROWS = 1000, 37


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(0, 2),
)
def test_each_record_once_and_each_block_in_one_window(
    sizes: list[int], block_records: int, window_blocks: int, groups: int, epoch: int
) -> None:
    """A block is in two windows only if two streams share it."""
    starts, n = np.cumsum(sizes) - sizes, sum(sizes)
    shuffle = Shuffle.of("window", block_records, window_blocks, groups)
    plan = Plan.of_one(n, shuffle, 5, blocks=Blocks(np.asarray(starts, np.int64), n))
    records = plan.locate(range(epoch * n, (epoch + 1) * n)).record
    assert np.sort(records).tolist() == list(range(n))
    assert plan.locate([epoch * n + n - 1]).record[0] == records[-1]
    windows = plan.epoch(0, epoch).windows(np.arange(n), shuffle)
    assert sorted(place for window in windows for place in window) == list(range(n))
    uses = Counter(
        block for window in windows for block in {*(np.searchsorted(starts, records[[*window]], "right") - 1).tolist()}
    )
    assert sum(uses.values()) <= len(sizes) + min(groups, n) - 1


def test_windows_have_as_many_records_as_asked() -> None:
    blocks = Blocks(np.arange(0, 10_000, 10), 10_000)
    shuffle = Shuffle.of("window", 20, 5)
    windows = Plan.of_one(10_000, shuffle, 0, blocks=blocks).epoch(0, 0).windows(np.arange(10_000), shuffle)
    assert [len(window) for window in windows] == [100] * 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    folder = tmp_path_factory.mktemp("rows")
    for number in range(2):
        with dataformats.create(folder / f"{number}.parquet", spec={"n": "int64"}, row_group_records=ROWS) as writer:
            writer.extend({"n": number * N // 2 + i} for i in range(N // 2))
    return folder


def numbers(loader: Any) -> list[int]:
    return [number for batch in loader for number in batch["n"].tolist()]


def test_each_block_is_decoded_once_an_epoch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = ParquetTable.read_block

    def read_block(table: ParquetTable, block: int, fields: Any) -> Any:
        decoded.append(block)
        return real(table, block, fields)

    monkeypatch.setattr(ParquetTable, "read_block", read_block)
    monkeypatch.setattr("dataformats.reading.table_source._KEPT_BYTES", 8 * 8 * ROWS)
    source = dataformats.open(path)
    with Loader(source, 10, block_records=ROWS, window_blocks=2) as loader:
        assert "shuffle window" in repr(loader)
        found = numbers(loader)
    assert sorted(found) == list(range(N))
    assert len(decoded) <= 1.2 * 28  # row groups; a block that is used for long may be decoded again
    assert isinstance(source, TableSource)


def test_resume_on_other_ranks_is_exact(path: Path) -> None:
    """Also with the plan of processes, whose groups are those of the first run."""
    source = dataformats.open(path)
    options: dict[str, Any] = {"seed": 3, "block_records": 50, "window_blocks": 2, "groups": 2}
    with Loader(source, 24, **options) as loader:
        expected = numbers(loader)
    ranks = [Loader(source, 12, rank=rank, world_size=2, **options) for rank in range(2)]
    batches = [iter(loader) for loader in ranks]
    found = []
    for _ in range(10):
        found += [number for rank in batches for number in next(rank)["n"].tolist()]
    state = ranks[0].state_dict()
    for loader in ranks:
        loader.close()
    resumed = [Loader(pickle.loads(pickle.dumps(source)), 8, rank=rank, world_size=3, **options) for rank in range(3)]
    for loader in resumed:
        loader.load_state_dict(state)
    rest = [[batch["n"].tolist() for batch in loader] for loader in resumed]
    found += [number for step in zip(*rest, strict=True) for batch in step for number in batch]
    for loader in resumed:
        loader.close()
    assert sorted(found) == sorted(expected) == list(range(N))
    assert {*found[:240]} == {*expected[:240]}


def test_blocks_of_views(path: Path) -> None:
    source = dataformats.open(path)
    starts = source.block_starts
    assert starts is not None
    assert starts.tolist() == [*range(0, 500, ROWS), *range(500, 1000, ROWS)]
    part = source[30:100].block_starts
    assert part is not None
    assert part.tolist() == [0, 7, 44]
    both = dataformats.concat([source, source.select("n")]).block_starts
    assert both is not None
    assert both.tolist() == [*starts, *(starts + N)]
    assert source.take([3, 1]).block_starts is None
