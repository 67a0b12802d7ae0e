"""DecodedBlocks: reads of more blocks than may be held at once."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.interfaces import BlockTable
from dataformats.reading.decoded_blocks import DecodedBlocks
from dataformats.spec import Spec
from dataformats.storage.decoded_cache import DecodedCache
from dataformats.testing.loop_over import loop_over


@loop_over("limit_bytes", [0, 600, 10**6])
def test_records_of_many_blocks(tmp_path: Path, limit_bytes: int) -> None:
    path = tmp_path / "a.parquet"
    with dataformats.create(path, "parquet", spec={"n": "int64", "text": "utf8"}, row_group_records=4) as writer:
        for n in range(99):
            writer.append({"n": n, "text": "x" * (n % 7)})
    source: Any = dataformats.open(path)
    blocks: Any = DecodedBlocks(source.reader, DecodedCache(limit_bytes))
    for records in (np.random.default_rng(1).integers(99, size=200), np.arange(99), np.arange(0)):
        found = blocks.read(records, ("text", "n"))
        assert found["n"].tolist() == records.tolist()
        assert list(found["text"]) == ["x" * (n % 7) for n in records.tolist()]


class _LargeBlocks(BlockTable):
    """40 blocks of 80 KB. The estimate says less, as that of a Parquet file with dictionaries."""

    files = ()
    counts = np.array([400])
    spec = Spec({"n": "int64[1000]"})
    decoded_bytes = 400
    block_starts = np.arange(0, 400, 10)

    def __init__(self) -> None:
        self.columns: list[weakref.ref[Any]] = []
        self.most_alive = 0

    def read_block(self, block: int, fields: Sequence[str]) -> Mapping[str, Any]:
        column = np.full((10, 1000), block)
        self.columns.append(weakref.ref(column))
        self.most_alive = max(self.most_alive, sum(one() is not None for one in self.columns))
        return {"n": column}


def test_few_blocks_are_in_memory_at_once() -> None:
    table = _LargeBlocks()
    blocks: Any = DecodedBlocks(table, DecodedCache(400_000))  # five blocks
    records = np.random.default_rng(1).permutation(400)
    assert blocks.read(records, ("n",))["n"][:, 0].tolist() == (records // 10).tolist()
    assert table.most_alive <= 8
