"""DecodedBlocks: reads of more blocks than may be held at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.reading.decoded_blocks import DecodedBlocks


@pytest.mark.parametrize("limit_bytes", [0, 600, 10**6])
def test_records_of_many_blocks(tmp_path: Path, limit_bytes: int) -> None:
    path = tmp_path / "a.parquet"
    with dataformats.create(path, "parquet", spec={"n": "int64", "text": "utf8"}, row_group_records=4) as writer:
        for n in range(99):
            writer.append({"n": n, "text": "x" * (n % 7)})
    source: Any = dataformats.open(path)
    blocks: Any = DecodedBlocks(source.reader, limit_bytes)
    for records in (np.random.default_rng(1).integers(99, size=200), np.arange(99), np.arange(0)):
        found = blocks.read(records, ("text", "n"))
        assert found["n"].tolist() == records.tolist()
        assert list(found["text"]) == ["x" * (n % 7) for n in records.tolist()]
