"""`extend` takes tables from `to_arrow` and from other programs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.columns.arrow_columns import spec_of_arrow
from dataformats.errors import SpecError
from dataformats.testing.loop_over import loop_over

arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

PHOTOS = Path(__file__).parents[1] / "golden" / "real" / "photos.tfrecord"
SPEC = {
    "n": "uint16",
    "flag": "bool",
    "image": "uint8[2,3]",
    "boxes": "float32[][4]",
    "text": "utf8",
    "texts": "utf8[]",
    "maybe": "int32?",
    "maybe_image": "float64[2]?",
    "maybe_text": "utf8?",
    "any": "array?",
    "json": "json",
    "jsons": "json[]",
    "tree": "tree",
    "int": "int",
    "png": "png?",
}


def record(i: int) -> dict[str, Any]:
    image = np.full((2, 3), i, np.uint8)
    whole = {"n": i, "flag": i % 2 == 0, "image": image, "boxes": np.ones((i, 4), np.float32), "text": "é" * i}
    whole |= {"texts": ["a"] * i, "json": {"a": i}, "jsons": [1, [2]], "tree": {"x": image}, "int": -i}
    return whole | ({} if i % 3 else {"maybe": i, "maybe_image": [i, 1], "maybe_text": "t", "any": image, "png": image})


@pytest.mark.parametrize("format", ["ffrecord", "granular"])
def test_a_table_of_a_source_gives_equal_data(tmp_path: Path, format: str) -> None:
    spec = {name: kind for name, kind in SPEC.items() if format != "granular" or not kind.endswith(("?", "[]", "[4]"))}
    rows = [{name: value for name, value in record(i).items() if name in spec} for i in range(10)]
    with dataformats.create(tmp_path / "a", format, spec=spec) as out:
        out.extend(rows)
    source = dataformats.open(tmp_path / "a")
    for number, table in enumerate((source.to_arrow(), source.to_batches(3), source.to_arrow(media_structs=True))):
        path = tmp_path / str(number)
        with dataformats.create(path, format, spec=spec, workers=number % 2) as out:
            out.extend(table)
            assert len(out) == 10
        assert dataformats.verify(path, against=source).ok
        assert dataformats.open(path).fingerprint == source.fingerprint


def test_payloads_with_features(tmp_path: Path) -> None:
    spec = {"image": "jpg", "width": "int64"}
    source = dataformats.open(PHOTOS, spec=spec).select(*spec)
    with dataformats.create(tmp_path / "x.tfrecord", spec=spec) as out:
        out.extend(source.to_arrow())
    stored = {**spec, "image": "bytes"}  # no image was encoded again
    assert list(dataformats.open(tmp_path / "x.tfrecord", spec=stored)) == list(source.with_spec(stored))


@loop_over("payload", ["bytes", "json", "msgpack", "utf8"])
def test_single_values(tmp_path: Path, payload: str) -> None:
    values: list[Any] = (
        [b"a", b""] if payload == "bytes" else ["text", "é"] if payload == "utf8" else [{"a": [1]}, "text"]
    )
    with dataformats.create(tmp_path / "a.ffr", payload=payload) as out:
        out.extend(values)
    with dataformats.create(tmp_path / "b.ffr", payload=payload) as out:
        out.extend(dataformats.open(tmp_path / "a.ffr").to_arrow())
    assert list(dataformats.open(tmp_path / "b.ffr")) == values


def test_types_of_other_programs(tmp_path: Path) -> None:
    of_dates = arrow.list_(arrow.struct({"at": arrow.timestamp("ns"), "sum": arrow.decimal128(3, 2)}))
    table = arrow.table(
        {
            "int8": arrow.array([1, 2], arrow.int8()),
            "category": arrow.array(["a", "b"]).dictionary_encode(),
            "view": arrow.array(["a", None], arrow.string_view()),
            "tensor": arrow.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8.0).reshape(2, 2, 2)),
            "date": arrow.array([0, 1], arrow.date32()),
            "turned": arrow.ExtensionArray.from_storage(
                arrow.fixed_shape_tensor(arrow.int64(), [1, 2], permutation=[1, 0]),
                arrow.array([[1, 2], [3, 4]], arrow.list_(arrow.int64(), 2)),
            ),
            "runs": arrow.RunEndEncodedArray.from_arrays([1, 2], [5, 6]),
            "struct": [{"a": [1]}, {"a": None}],
            "dates": arrow.array([[{"at": 1, "sum": Decimal("1.50")}], []], of_dates),
            "list": [[1], []],
        }
    ).slice(0, 2)
    assert str(spec_of_arrow(table.schema)["turned"]) == "int64[2,1]?"
    spec = {"int8": "int64", "category": "utf8", "view": "utf8?", "tensor": "float64[2,2]", "date": "utf8"}
    spec |= {"turned": "int64[2,1]", "runs": "int64", "struct": "json", "dates": "json", "list": "int64[]"}
    with dataformats.create(tmp_path / "x.ffr", spec=spec) as out:
        out.extend(table)
    first, second = dataformats.open(tmp_path / "x.ffr")
    assert (first["int8"], first["category"], first["view"]) == (1, "a", "a")
    assert (second["date"], second["struct"], len(second["list"])) == ("1970-01-02", {"a": None}, 0)
    assert second["tensor"].tolist() == [[4, 5], [6, 7]]
    assert (second["turned"].tolist(), second["runs"]) == ([[3], [4]], 6)
    assert first["dates"] == [{"at": "1970-01-01 00:00:00.000000001", "sum": "1.50"}]
    assert "view" not in second


@loop_over(
    "columns, message",
    [
        ({"n": [1, None]}, "record 1, field 'n': expected int64, found nothing"),
        ({"n": [1], "other": [1]}, "other"),
        ({"n": [1.5]}, "record 0, field 'n': expected int64, found float64"),
        ({"n": [[1], [None]]}, "record 0, field 'n': expected int64, found an array"),
        ({"n": arrow.array([(1, 2, 3)], arrow.month_day_nano_interval())}, "field 'n'"),
    ],
)
def test_unfitting_table_columns_raise(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    out = dataformats.create(tmp_path / "x.ffr", spec={"n": "int64"})
    with pytest.raises(SpecError, match=message):
        out.extend(arrow.table(columns))
    out.abort()


def test_views_of_polars(tmp_path: Path) -> None:
    views = {
        "list": arrow.array([["a"], None, ["b", ""]], arrow.list_(arrow.string_view())),
        "struct": arrow.array([{"a": b"\xff"}, None, {"a": None}], arrow.struct({"a": arrow.binary_view()})),
        "category": arrow.DictionaryArray.from_arrays([0, None, 1], arrow.array(["a", "b"], arrow.string_view())),
    }
    with dataformats.create(
        tmp_path / "x.ffr", spec={"list": "utf8[]?", "struct": "msgpack?", "category": "utf8?"}
    ) as out:
        out.extend(arrow.table(views))
    first = {"list": ["a"], "struct": {"a": b"\xff"}, "category": "a"}
    assert list(dataformats.open(tmp_path / "x.ffr")) == [
        first,
        {},
        {"list": ["b", ""], "struct": {"a": None}, "category": "b"},
    ]


def test_extend_refuses_wrong_tables(tmp_path: Path) -> None:
    categories = arrow.DictionaryArray.from_arrays([0], arrow.array(["a"], arrow.string_view()))
    for table, message in (
        (arrow.table([[1], [2]], names=["n", "n"]), "field 'n': expected one column of this name, found several"),
        (arrow.chunked_array([[1]]), "ChunkedArray is not a table"),
        (arrow.table({"n": arrow.ListArray.from_arrays([0, 1], categories)}), "field 'n': cannot read list.*Cast"),
    ):
        out = dataformats.create(tmp_path / "x.ffr", spec={"n": "utf8[]"})
        with pytest.raises(SpecError, match=message):
            out.extend(table)
        out.abort()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (arrow.array([["a"], [], [None]]), "record 2, field 'x': expected utf8 in a list, found null"),
    ],
)
def test_errors_within_a_table_name_the_record(tmp_path: Path, lists: Any, message: str) -> None:
    out = dataformats.create(tmp_path / "x.ffr", spec={"x": "utf8[]"})
    with pytest.raises(SpecError, match=message):
        out.extend(arrow.table({"x": lists}))
    assert len(out) == 2
    out.abort()


@loop_over("kind, codec", [("large_string", "utf8"), ("large_binary", "bytes"), ("string", "utf8")])
def test_slices_of_text_write_their_own_values(kind: str, codec: str, tmp_path: Path) -> None:
    values = arrow.array(["a", "bb", "ccc", "dddd"]).cast(getattr(arrow, kind)())
    with dataformats.create(tmp_path / "x.ffr", spec={"a": codec}) as out:
        out.extend(arrow.table({"a": values}).slice(2))
    written = dataformats.open(tmp_path / "x.ffr").to_arrow()["a"]
    assert written.cast(arrow.string()).to_pylist() == ["ccc", "dddd"]
