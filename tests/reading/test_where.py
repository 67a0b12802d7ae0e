"""`where=` takes SQL, a function or a mask, in every public call that has it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats import SpecError
from dataformats.reading.conditions import Where

N = 20
CONDITIONS = {"sql": "n % 5 = 3", "function": lambda record: record["n"] % 5 == 3, "mask": np.arange(N) % 5 == 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with dataformats.create(tmp_path / "source.ffr", spec={"n": "int64"}) as writer:
        writer.extend({"n": i} for i in range(N))
    return tmp_path / "source.ffr"


@pytest.mark.parametrize("kind", CONDITIONS)
def test_every_call_takes_every_kind(path: Path, kind: str) -> None:
    if kind == "sql":
        pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    where: Where = CONDITIONS[kind]
    chosen, rest = path.with_name("chosen.ffr"), path.with_name("rest.ffr")
    assert [record["n"] for record in dataformats.open(path).where(where)] == [3, 8, 13, 18]
    assert dataformats.convert(path, chosen, where=where).records == 4
    assert dataformats.verify(chosen, against=path, where=where).ok
    assert [*dataformats.split(path, chosen, where=where, rest_path=rest, overwrite=True).values()] == [4, 16]


def test_sql_without_duckdb_names_the_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dataformats.interop.duckdb", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(dataformats.MissingExtraError, match=r"dataformats\[duckdb\]"):
        dataformats.open(path).where("n = 3")
    with pytest.raises(dataformats.MissingExtraError, match=r"dataformats\[duckdb\]"):
        dataformats.convert(path, path.with_name("new.ffr"), where="n = 3")


def test_a_failing_function_names_file_and_record(path: Path) -> None:
    source = dataformats.concat([dataformats.open(path), dataformats.open(path)])
    with pytest.raises(KeyError, match="m") as caught:
        source.where(lambda record: record["n" if record["n"] < 7 else "m"] == 1)
    assert caught.value.__notes__ == [f"raised by where= for record 7 of {str(path)!r}"]


def test_arrays_are_no_truth_values(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", spec={"image": "uint8[2,2]"}) as writer:
        writer.append({"image": np.zeros((2, 2), np.uint8)})
    source = dataformats.open(tmp_path / "x.ffr")
    with pytest.raises(SpecError, match=r"found an array of shape \(2, 2\)"):
        source.where(lambda record: record["image"] > 1)
    pytest.importorskip("duckdb")
    with pytest.raises(SpecError, match=r"'image > 1' fails: .*name\[1\] is the first item"):
        source.where("image > 1")
    assert len(source.where("list_max(image[1]) = 0")) == 1
