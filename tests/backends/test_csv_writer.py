"""CSV and TSV that this package writes, also as other programs read them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.errors import CodecError, SpecError
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import is_same_value

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

HOSTILE = (
    "",
    "NA",
    "null",
    "NaN",
    "00123",
    " a ",
    'q"x',
    '"',
    "a,b",
    "a;b",
    "a\tb",
    "\r",
    "a\r\nb",
    "\n",
    "\ufeff",
    "é",
)
TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=5)
SPEC = {
    "text": "utf8?",
    "zip": "utf8",
    "big": "uint64?",
    "small": "int8",
    "x": "float64?",
    "y": "float32",
    "h": "float16",
    "b": "bool?",
    "doc": "json",
    "list": "float32[]?",
    "tags": "utf8[]",
}
FIELDS = {
    "zip": TEXTS,
    "small": st.integers(-128, 127),
    "y": st.floats(width=32),
    "h": st.floats(width=16),
    "doc": st.none() | st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2),
    "tags": st.lists(TEXTS, max_size=3),
}
OPTIONAL = {
    "text": TEXTS,
    "big": st.integers(0, 2**64 - 1),
    "x": st.floats(),
    "b": st.booleans(),
    "list": st.lists(st.floats(width=32), max_size=3).map(lambda values: np.array(values, np.float32)),
}


@settings(max_examples=40)
@given(
    st.lists(st.fixed_dictionaries(FIELDS, optional=OPTIONAL), max_size=4), st.sampled_from(["csv", "tsv", "csv.gz"])
)
def test_values_come_back(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], ending: str) -> None:
    path = tmp_path_factory.mktemp("csv") / f"x.{ending}"
    with dataformats.create(path, spec=SPEC) as writer:
        writer.extend(records)
    source = dataformats.open(path)
    assert source.spec == SPEC
    assert all(is_same_value(*pair) for pair in zip(source, records, strict=True))
    text = (gzip.decompress if ending == "csv.gz" else bytes)(path.read_bytes()).decode()
    names, *rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if ending == "tsv" else ",")
    assert names == [*SPEC]
    for row, record in zip(rows, records, strict=True):
        cells = dict(zip(names, row, strict=True))
        assert (cells["text"], cells["zip"]) == (record.get("text", ""), record["zip"])
        assert cells["big"] == str(record.get("big", ""))
        assert math.isnan(record["y"]) or np.float32(cells["y"]) == np.float32(record["y"])
        assert (json.loads(cells["doc"]), json.loads(cells["tags"])) == (record["doc"], record["tags"])


def test_pandas_reads_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    values: dict[str, Any] = {
        "text": list(HOSTILE),
        "n": list(range(len(HOSTILE))),
        "x": [0.1, None, *[2.5] * (len(HOSTILE) - 2)],
    }
    with dataformats.create(tmp_path / "x.csv", spec={"text": "utf8", "n": "int64", "x": "float64?"}) as writer:
        writer.extend(dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
    frame = pandas.read_csv(tmp_path / "x.csv", dtype={"text": str}, na_values=[""], keep_default_na=False)
    assert frame["text"].fillna("").tolist() == values["text"]
    assert (frame["n"].tolist(), frame["x"][0], frame["x"].isna().tolist().count(True)) == (values["n"], 0.1, 1)


@loop_over("name", ["x.csv", "x.tsv", "x.csv.gz", "shards"])
def test_conversions_are_read_back(name: str, tmp_path: Path) -> None:
    """Also with NaNs of several signs, and with names that hold delimiters."""
    spec = {'a;\n"': "utf8?", "x": "float64", "h": "float16?", "v": "float16[2]", "tags": "utf8[]"}
    rows: list[dict[str, Any]] = [
        {'a;\n"': "007", "x": -math.nan, "v": np.array([-np.nan, np.inf], np.float16), "tags": ["a"]},
        {"x": -math.inf, "h": 0.5, "v": np.array([0.1, -0.0], np.float16), "tags": []},
    ]
    with dataformats.create(tmp_path / "x.parquet", spec=spec) as writer:
        writer.extend(rows)
    shards = 2 if name == "shards" else None
    assert dataformats.convert(tmp_path / "x.parquet", tmp_path / name, "csv", shard_records=shards).records == 2
    assert dataformats.convert(tmp_path / name, tmp_path / "again.csv", overwrite=True).records == 2
    for path in (tmp_path / name, tmp_path / "again.csv"):
        assert all(is_same_value(*pair) for pair in zip(dataformats.open(path), rows, strict=True))


def test_other_types_of_written_numbers(tmp_path: Path) -> None:
    """Numbers are read as written, and cast: one that does not fit costs its record."""
    with dataformats.create(tmp_path / "x.csv", spec={"zip": "utf8", "n": "int32"}) as writer:
        writer.extend({"zip": f"0{n}", "n": n} for n in (1, 200))
    source = dataformats.open(tmp_path / "x.csv", spec={"n": "int8", "zip": "int64"})
    assert source[0] == {"zip": 1, "n": 1}
    with pytest.raises(SpecError, match=r"record 1 of .*out of range"):
        source[1]


def test_lists_in_cells_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('n,v\n1,"[1, 2]"\n2,[]\n3,[0.5]\n4,x\n', "utf-8")
    source = dataformats.open(tmp_path / "x.csv", spec={"v": "int64[]"})
    assert [one["v"].tolist() for one in source[:2]] == [[1, 2], []]
    for row, found in ((2, "float64"), (3, "as JSON")):
        with pytest.raises(CodecError, match=f"record {row} of .*field 'v'.*{found}"):
            source[row]


@loop_over("kind", ["bytes", "png", "json[]", "float128", "msgpack"])
def test_blobs_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"field 'x': a cell of CSV holds .*, found .* such as Parquet"):
        dataformats.create(tmp_path / "x.csv", spec={"n": "int64", "x": kind})


def test_missing_values_of_one_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"field 'x': the line of a missing value would be blank"):
        dataformats.create(tmp_path / "x.csv", spec={"x": "int64?"})
