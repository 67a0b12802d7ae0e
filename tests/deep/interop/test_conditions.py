"""Conditions in SQL, compared with the same filter in Python."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import ChecksumError, RecordSource, Spec, SpecError, UnknownNameError

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

from dataformats.interop.duckdb import matching

GOLDEN = Path(__file__).parents[2] / "golden"
N = 300


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return [
        {
            "label": i % 10,
            "score": [float("nan"), -0.5, i / 8][i % 3],
            "name": ["ab", "é", "a'b", ""][i % 4] + str(i),
            "blob": bytes(range(i % 50)),
            "tokens": np.arange(i % 9),
            "image/width": i * 3,
            "Upper": i,
        }
        | ({"weight": i} if i % 5 else {})
        for i in range(N)
    ]


@pytest.fixture(scope="module")
def source(records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordSource]:
    path = tmp_path_factory.mktemp("conditions") / "x.ffr"
    types = {"label": "int64", "score": "float32", "name": "utf8", "blob": "bytes", "tokens": "int64[]"}
    spec = {**types, "image/width": "int64", "Upper": "int64", "weight": "int64?"}
    with dataformats.create(path, spec=spec) as writer:
        writer.extend(records)
    with dataformats.open(path) as source:
        yield source


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "label = 3": lambda r: r["label"] == 3,
    "label in (1, 2) and Upper > 100": lambda r: r["label"] in (1, 2) and r["Upper"] > 100,
    "score = 'nan'::double": lambda r: r["score"] != r["score"],
    "score > 3 and not isnan(score)": lambda r: r["score"] > 3,
    "name like 'a%'": lambda r: r["name"].startswith("a"),
    "name = 'a''b2'": lambda r: r["name"] == "a'b2",
    "starts_with(name, 'é')": lambda r: r["name"].startswith("é"),
    "octet_length(blob) > 20": lambda r: len(r["blob"]) > 20,
    "len(tokens) > 5": lambda r: len(r["tokens"]) > 5,
    "list_contains(tokens, 7)": lambda r: 7 in r["tokens"],
    "list_max(tokens) > label": lambda r: len(r["tokens"]) > 0 and r["tokens"].max() > r["label"],
    "weight is null": lambda r: "weight" not in r,
    "weight > 100": lambda r: r.get("weight", 0) > 100,
    "not (weight > 100)": lambda r: r.get("weight", 101) <= 100,
    '"image/width" % 2 = 0': lambda r: r["image/width"] % 2 == 0,
    "upper = 7 -- a comment": lambda r: r["Upper"] == 7,
    "record between 3 and 5": lambda r: 3 <= r["Upper"] <= 5,
    "true": lambda r: True,
    "label = null": lambda r: False,
}


@pytest.mark.parametrize(("condition", "batch_size"), [*((text, None) for text in CONDITIONS), ("label = 3", 70)])
def test_values(source: RecordSource, records: list[dict[str, Any]], condition: str, batch_size: int | None) -> None:
    parts = [*matching(source, condition, batch_size)]
    assert all(part.dtype == np.int64 for part in parts)
    expected = [i for i, record in enumerate(records) if CONDITIONS[condition](record)]
    assert np.concatenate(parts).tolist() == expected


def test_only_named_fields_are_read(source: RecordSource) -> None:
    asked = []

    class Watched(RecordSource):
        @property
        def spec(self) -> Spec:
            return source.spec

        @property
        def fingerprint(self) -> str:
            return source.fingerprint

        def __len__(self) -> int:
            return len(source)

        def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None) -> Any:
            asked.append([*fields])
            return source.read(indices, fields, on_corrupt)

    found = matching(Watched(), "label = 3 or UPPER = 5", 10)
    assert asked == []  # lazily
    assert next(found).tolist() == [3, 5]
    found.close()
    assert asked[0] == ["Upper", "label"]
    assert len(asked) <= 3
    assert not [thread for thread in threading.enumerate() if "prefetch" in thread.name]


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("labl = 3", UnknownNameError, "nearest: label"),
        ('name = "ab"', UnknownNameError, "single quotes around text"),
        ("image/width > 3", UnknownNameError, "Double quotes"),
        ("label = ", SpecError, "does not parse"),
        ("label = 3 limit 3", SpecError, "does not parse"),
        ("label = 3; select 1", SpecError, "does not parse"),
        ("1) or (1=1", SpecError, "does not parse"),
        ("label = 3\ud800", SpecError, "surrogates"),
        ("label = 3\0", SpecError, "does not parse"),
        ("", SpecError, "does not parse"),
        ("1 + " * 5000 + "1 = 2", SpecError, "does not parse"),
        ("label", SpecError, "has the type BIGINT"),
        ("label, name", SpecError, "parse"),
        ("name > 3", SpecError, "'name' is large_string"),
        ("blob like 'a%'", SpecError, r"decode\(name\) is the text"),
        ("sum(label) > 3", SpecError, "calls sum"),
        ("sum(label) over () > 3", SpecError, "window"),
        ("exists(select 1)", SpecError, "subquery"),
        ("(select count(*) from read_csv('/etc/passwd')) > 3", SpecError, "subquery"),
        ("read_text('/etc/passwd') = 'x'", SpecError, "calls read_text"),
        ("columns(*) > 1", SpecError, "COLUMNS"),
        ("#1 = 3", SpecError, "position"),
        ("label = $1", SpecError, "parameter"),
        ("len(range(1000000000)) > label", SpecError, "calls range"),
        ("length('ab'.REPEAT(1000000000)) > label", SpecError, "calls repeat|does not parse"),
    ],
)
def test_errors(source: RecordSource, condition: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        matching(source, condition)
    assert type(caught.value) is error
    assert len(str(caught.value)) < 1000


def test_unconvertible_value_raises_unless_try_cast(source: RecordSource) -> None:
    with pytest.raises(ValueError, match="Could not convert string 'ab0'"):
        next(matching(source, "name::int = 3"))
    assert [*map(len, matching(source, "try_cast(name as int) is not null", 1000))] == [75]


def test_variables_of_python_are_no_tables(source: RecordSource) -> None:
    table = {"label": 3}
    with pytest.raises(UnknownNameError, match="'table_'"):
        matching(source, "table_.label = 3")
    assert table


def test_damaged_records() -> None:
    with dataformats.open(GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord") as source:
        errors: dict[int, Exception] = {}
        assert np.concatenate([*matching(source, "record > 0", failed=errors.__setitem__)]).tolist() == [1, 2, 4, 5]
        assert [*errors] == [3]
        assert isinstance(errors[3], ChecksumError)
        found = matching(source, "record > 0")
        assert next(found).tolist() == [1, 2]
        with pytest.raises(ChecksumError):
            next(found)


def test_unfitting_records_are_given_to_failed(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", spec={"a": "int64[]"}) as writer:
        writer.extend([{"a": [1] if i != 50 else [1, 2]} for i in range(100)])
    with dataformats.open(tmp_path / "x.ffr", spec={"a": "int64"}) as source:
        errors: dict[int, Exception] = {}
        numbers = itertools.chain.from_iterable(matching(source, "a = 1", failed=errors.__setitem__))
        assert [*numbers] == [i for i in range(100) if i != 50]
        assert isinstance(errors[50], SpecError)


def test_names_of_fields(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", spec={"a": "int64", "A": "int64", "record": "int64"}) as writer:
        writer.extend([{"a": 1, "A": 2, "record": 9}, {"a": 2, "A": 1, "record": 8}])
    with dataformats.open(tmp_path / "x.ffr") as source:
        assert np.concatenate([*matching(source, "A = 1 and record = 8")]).tolist() == [1]
        with pytest.raises(ValueError, match="one name in SQL"):
            matching(source, "a = A")


def test_many_fields(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(2000)]
    with dataformats.create(tmp_path / "x.ffr", spec=dict.fromkeys(names, "int64")) as writer:
        writer.extend([dict.fromkeys(names, 7)] * 3)
    with dataformats.open(tmp_path / "x.ffr") as source:
        assert [*map(len, matching(source, "f1999 = 7"))] == [3]


def test_single_values(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", payload="utf8") as writer:
        writer.extend(["a", "b", "ab"])
    with dataformats.open(tmp_path / "x.ffr") as source:
        assert next(matching(source, "value like 'a%'")).tolist() == [0, 2]
