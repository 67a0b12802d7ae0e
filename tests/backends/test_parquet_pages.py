"""Sizes of Parquet in memory, by the headers of its pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats.testing.loop_over import loop_over

arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

TOO_LONG = "row group 0 is longer than a share of max_record_bytes"


def varint(n: int, n_bytes: int) -> bytes:
    """Return an integer of Thrift's compact protocol in so many bytes, padded."""
    groups = [2 * n >> 7 * i & 127 for i in range(n_bytes)]
    return bytes(group | 128 for group in groups[:-1]) + bytes(groups[-1:])


def rewrite(path: Path, old: bytes, new: bytes, count: int = -1) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, count))


@loop_over("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_one_text_of_a_large_file_is_bounded(compression: str, tmp_path: Path) -> None:
    n, path = 2**20, tmp_path / "x.parquet"
    text = np.random.default_rng(0).bytes(n)
    rows = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(200, np.int32)), arrow.array([text]))
    table = arrow.table({"x": rows, "n": np.arange(200)})
    parquet.write_table(table, path, store_schema=False, compression=compression)
    source = dataformats.open(path, max_record_bytes=2**20)
    assert source.read([3], fields=["n"])["n"].tolist() == [3]
    with pytest.raises(FormatError, match=TOO_LONG):
        source[3]
    assert dataformats.open(path)[3] == {"x": text, "n": 3}


def test_nulls_are_bounded(tmp_path: Path) -> None:
    parquet.write_table(arrow.table({"x": arrow.nulls(10**6, arrow.string())}), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=TOO_LONG):
        dataformats.open(tmp_path / "x.parquet", max_record_bytes=1000)[5]


def understate_footer(path: Path) -> None:
    size = parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    rewrite(path, varint(size, 3), varint(9, 3))


def understate_dictionary(path: Path) -> None:
    rewrite(path, varint(10**5 + 4, 3), varint(9, 3), 1)


@loop_over("understate, compression, rows", [(understate_footer, "zstd", 1), (understate_dictionary, "none", 10_000)])
def test_understated_sizes_are_not_believed(
    understate: Callable[[Path], None], compression: str, rows: int, tmp_path: Path
) -> None:
    path, texts = tmp_path / "x.parquet", arrow.array(["x" * 10**6 if rows == 1 else "x" * 10**5])
    column = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(rows, np.int32)), texts)
    parquet.write_table(arrow.table({"x": column}), path, store_schema=False, compression=compression)
    understate(path)
    with pytest.raises(FormatError, match=TOO_LONG):
        dataformats.open(path, max_record_bytes=2**20)[0]


@loop_over("header", [b"\x15\x02\x05\x02\x04\x00", b"\x15\x02\x05" + varint(2**16 + 1, 3) + b"\x04\x00"])
def test_fields_are_in_order(header: bytes) -> None:
    from dataformats.backends.tables.parquet_footer import read_struct

    with pytest.raises(ValueError, match=r"fields are out of order|number of a field is too large"):
        read_struct(header, 0)


def test_missing_rows_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"x": [1, 2]}), path, use_dictionary=False)
    rewrite(path, b"\x2c\x15\x04\x15\x00", b"\x2c\x15\x00\x15\x00")  # a page of 0 values
    with pytest.raises(FormatError, match="0 rows of 2"):
        dataformats.open(path)[0]


TEXTS = {
    "short": [b"user-%d" % i for i in range(5000)],
    "empty": [b"", b"a", b"bc", b"", b"def"],
    "zeros": [b"\0" * (i % 9) + b"\3\0\0\0" for i in range(900)],
    "mixed": [b"x" * (i * i % 701) for i in range(1500)],
    "long": [b"x" * 70_000, b"y" * 256, b"z" * 255],
}


@pytest.mark.parametrize("texts", TEXTS.values(), ids=list(TEXTS))
def test_longest_text_of_a_dictionary(texts: list[bytes], tmp_path: Path) -> None:
    from dataformats.backends.tables.parquet_pages import ColumnChunks, pages_of, repeated_bytes
    from dataformats.storage.files import LocalFile

    path, rows = tmp_path / "x.parquet", 3 * texts
    parquet.write_table(arrow.table({"x": rows}), path)
    column: Any = parquet.read_metadata(path).row_group(0).column(0)
    (chunk,) = ColumnChunks(LocalFile(str(path)), [column], "").found
    pages = pages_of(chunk, len(rows))
    assert repeated_bytes(pages, column.compression, 0) == len(rows) * max(map(len, texts))
    assert pages.n_bytes >= 20 * len({*texts})  # pyarrow adds them to each
