"""Fields from the names of folders: as pyarrow reads them, in files of any format."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, SpecError
from dataformats.testing.loop_over import loop_over

FOLDERS = {"year=2020/split=a%20b": 2, "year=2021/split=c": 3, "year=__HIVE_DEFAULT_PARTITION__/split=c": 1}
FORMATS = {"tfrecord": ".tfrecord", "jsonl": ".jsonl", "ffrecord": ".ffr", "csv": ".csv", "webdataset": ".tar"}


def write_folders(folder: Path, format: str = "tfrecord") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, n in FOLDERS.items():
        path = folder / name / f"part-0{FORMATS[format]}"
        path.parent.mkdir(parents=True)
        new = [{"x": len(rows) + i} for i in range(n)]
        if format == "csv":
            path.write_text("x\n" + "".join(f"{row['x']}\n" for row in new))
        else:
            with dataformats.create(path, format, spec={"x": "int64"}) as writer:
                writer.extend(new)
        year = {} if "HIVE" in name else {"year": int(name[5:9])}
        rows += [{**row, **year, "split": "a b" if "a%20b" in name else "c"} for row in new]
    (folder / "_SUCCESS").touch()
    return rows


@loop_over("format", FORMATS)
def test_names_of_folders_are_fields(format: str, tmp_path: Path) -> None:
    rows = write_folders(tmp_path / "x", format)
    every = str(tmp_path / "x" / "**" / f"*{FORMATS[format]}")
    for path in (tmp_path / "x", every):
        source = dataformats.open(path)
        assert {name: str(source.spec[name]) for name in ("x", "year", "split")} == {
            "x": "int64", "year": "int32?", "split": "utf8"
        }  # fmt: skip
        source = source.select("x", "year", "split")
        assert list(source) == rows
        assert [source[i] for i in (5, 0)] == list(source.read([5, 0])) == [rows[5], rows[0]]
    assert [record["x"] for record in source.where("year >= 2021 and split = 'c'")] == [2, 3, 4]
    assert source.read([4, 1], ["split"])["split"] == ["c", "a b"]
    copy = pickle.loads(pickle.dumps(source))
    assert list(copy) == rows
    assert copy.fingerprint == source.fingerprint == dataformats.open(every).select("x", "year", "split").fingerprint
    with dataformats.Loader(source, 2, seed=1, collate=lambda records: {"records": records}) as loader:
        found = [record for batch in loader for record in batch["records"]]
    assert sorted(found, key=lambda record: record["x"]) == rows
    dataformats.convert(tmp_path / "x", tmp_path / "new.ffr", fields=["x", "year", "split"])
    assert list(dataformats.open(tmp_path / "new.ffr")) == rows
    assert len(dataformats.info(tmp_path / "x").files) == 3
    assert dataformats.verify(tmp_path / "x").ok
    assert dataformats.verify(tmp_path / "x", against=tmp_path / "new.ffr", fields=["x", "year", "split"]).ok
    with pytest.raises(SpecError, match=r"names of folders are fields of these records.*convert"):
        dataformats.merge(tmp_path / "x", tmp_path / "merged")


def test_partitions_equal_pyarrow(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import dataset

    columns = {"x": range(8), "a": [-7, 0, None, 2**31 - 1] * 2, "b": [2**31, 1] * 4, "c": ["01", "1/é"] * 4}
    table = arrow.table({name: arrow.array(values) for name, values in columns.items()})
    by = dataset.partitioning(table.select(["a", "b", "c"]).schema, flavor="hive")
    dataset.write_dataset(table, tmp_path / "x", format="parquet", partitioning=by)
    expected = dataset.dataset(tmp_path / "x", partitioning="hive").to_table()
    source = dataformats.open(tmp_path / "x")
    names = {"int32": "int32", "string": "utf8", "int64": "int64"}
    assert {name: kind.codec for name, kind in source.spec.items()} == {
        one.name: names[str(one.type)] for one in expected.schema
    }
    rows = [{name: value for name, value in row.items() if value is not None} for row in expected.to_pylist()]
    assert sorted(source, key=lambda row: row["x"]) == sorted(rows, key=lambda row: row["x"])


def test_types_of_partitions(tmp_path: Path) -> None:
    write_folders(tmp_path / "x")
    source = dataformats.open(tmp_path / "x", spec={"year": "float32?", "x": "int64"})
    batch = source.read([0, 2])
    assert batch["year"].values.dtype == np.float32
    assert source.with_spec({"year": "utf8?"})[0]["year"] == "2020"
    with pytest.raises(SpecError, match="found a folder without it"):
        dataformats.open(tmp_path / "x", spec={"year": "int32"})
    with pytest.raises(SpecError, match=r"field 'split'.*the name of a folder"):
        dataformats.open(tmp_path / "x", spec={"split": "int32"})


def test_chosen_folders_are_no_fields(tmp_path: Path) -> None:
    """A folder and a glob begin where the path has no more stars; a single file is a file."""
    write_folders(tmp_path / "a=1" / "x")
    assert set(dataformats.open(tmp_path / "a=1" / "x" / "year=2020").spec) == {"x", "split"}
    assert set(dataformats.open(str(tmp_path / "a=1" / "x" / "year=2020" / "*" / "*.tfrecord")).spec) == {"x", "split"}
    assert set(dataformats.open(tmp_path / "a=1" / "x" / "year=2020" / "split=a%20b" / "part-0.tfrecord").spec) == {"x"}
    (tmp_path / "a=1" / "x" / "year=2021" / "other").mkdir()
    (tmp_path / "a=1" / "x" / "more").mkdir()
    with pytest.raises(FormatError, match="folders in it do"):
        dataformats.open(tmp_path / "a=1" / "x")
