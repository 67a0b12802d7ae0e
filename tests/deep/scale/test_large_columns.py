"""Columns of more than 2 GiB in one row group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import dataformats

_NEEDED_BYTES = 12 * 2**30  # of memory: pyarrow reads the column whole


@pytest.mark.skipif(
    os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < _NEEDED_BYTES, reason="there is too little memory"
)
def test_nested_column_of_more_than_2_gib(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    size = 2**28
    row = arrow.array([[("a" * size, 1)]], arrow.map_(arrow.string(), arrow.int32()))
    parquet.write_table(arrow.table({"x": arrow.chunked_array([row] * 9)}), str(tmp_path / "x.parquet"))
    with pytest.raises(NotImplementedError):
        parquet.read_table(str(tmp_path / "x.parquet"))
    (pair,) = dataformats.open(tmp_path / "x.parquet")[5]["x"]
    assert (len(pair[0]), pair[1]) == (size, 1)
