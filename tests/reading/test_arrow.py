"""Arrow: the schema follows from the spec alone, and values equal `read`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats.errors
from dataformats.batch.arrow_types import arrow_schema
from dataformats.spec import NUMBER_TYPES, Spec
from dataformats.testing.loop_over import loop_over

arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

GOLDEN = Path(__file__).parents[1] / "golden"

SPEC = {
    "n": "uint16",
    "flag": "bool",
    "half": "float16",
    "image": "uint8[2,3]",
    "empty": "float32[0]",
    "ragged": "int64[]",
    "boxes": "float32[][4]",
    "text": "utf8",
    "texts": "utf8[]",
    "blob": "bytes",
    "maybe": "int32?",
    "maybe_image": "float64[2]?",
    "maybe_text": "utf8?",
    "maybe_blobs": "bytes[]?",
    "any": "array",
    "maybe_any": "array?",
    "npy": "npy",
    "fixed": "array(float32,2)",
    "complex": "array(complex64)",
    "json": "json",
    "jsons": "json[]",
    "msgpack": "msgpack",
    "tree": "tree",
    "int": "int",
    "ints": "int[]",
    "unsigned": "int(unsigned)",
    "u64": "u64",
    "png": "png",
    "pngs": "png[]",
    "pickle": "pickle",
}


def record(i: int) -> dict[str, Any]:
    whole = {
        "n": i,
        "flag": i % 2 == 0,
        "half": i / 2,
        "image": np.full((2, 3), i, np.uint8),
        "empty": np.zeros(0, np.float32),
        "ragged": np.arange(i),
        "boxes": np.full((i, 4), i, np.float32),
        "text": "é" * i,
        "texts": ["a"] * i,
        "blob": b"\0" * i,
        "maybe": i,
        "maybe_image": np.array([i, i], float),
        "maybe_text": "t",
        "maybe_blobs": [b"a", b"bc"],
        "any": np.arange(i + 1, dtype=np.float32 if i % 2 else np.int8),
        "maybe_any": np.ones((2, i + 1), bool),
        "npy": np.array(i, ">i2"),
        "fixed": np.array([i, 1], np.float32),
        "complex": np.complex64(i + 2j),
        "json": {"a": i} if i % 2 else [1, "two"],
        "jsons": [None, {"b": 1}],
        "msgpack": b"b" if i % 2 else {"c": i},
        "tree": {"x": np.arange(i)},
        "int": -i,
        "ints": [i, 2],
        "unsigned": i,
        "u64": 2**63,
        "png": np.full((2, 2), i, np.uint8),
        "pngs": [np.full((2, 2), i, np.uint8)] * i,
        "pickle": (i,),
    }
    missing = {"maybe", "maybe_image", "maybe_text", "maybe_blobs", "maybe_any"} if i % 3 == 2 else set()
    return {name: value for name, value in whole.items() if name not in missing}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dataformats.RecordSource:
    path = tmp_path_factory.mktemp("arrow") / "x.ffr"
    with dataformats.create(path, "ffrecord", spec=SPEC) as out:
        out.extend([record(i) for i in range(6)])
    return dataformats.open(path, spec=SPEC)


def views(source: dataformats.RecordSource) -> dict[str, dataformats.RecordSource]:
    return {
        "no records": source[:0],
        "one": source[4:5],
        "odd": source.where(np.arange(len(source)) % 2 == 1),
        "concat": dataformats.concat([source[:2], source[2:]]),
        "all": source,
    }


def test_the_schema_follows_from_the_spec(everything: dataformats.RecordSource) -> None:
    schema = arrow_schema(everything.spec)
    for name, view in views(everything).items():
        table = view.to_arrow()
        table.validate(full=True)
        assert table.schema == schema, name
        assert table.num_rows == len(view)
    assert all(batch.schema == schema for batch in everything.to_batches(1))
    assert str(schema.field("image").type) == ("fixed_size_list<item: fixed_size_list<item: uint8>[3]>[2]")
    assert schema.field("maybe").nullable
    assert not schema.field("n").nullable


def test_values(everything: dataformats.RecordSource) -> None:
    rows = everything.to_arrow().to_pylist()
    stored = everything.with_spec({**everything.spec, "png": "bytes", "msgpack": "bytes"})
    for row, decoded, blobs in zip(rows, everything, stored, strict=True):
        for name in ("n", "flag", "half", "text", "texts", "blob", "int", "unsigned", "u64"):
            assert row[name] == decoded[name], name
        for name in ("image", "empty", "ragged", "boxes", "fixed"):
            assert row[name] == decoded[name].tolist(), name
        for name in ("any", "npy", "maybe_any"):
            parts, array = row[name], decoded.get(name)
            assert (parts is None) == (array is None)
            if array is not None:
                found = np.frombuffer(parts["data"], parts["dtype"]).reshape(parts["shape"])
                assert found.dtype == array.dtype
                assert np.array_equal(found, array)
        for name in ("maybe", "maybe_text", "maybe_blobs"):
            assert row[name] == decoded.get(name)
        assert row["ints"] == list(decoded["ints"])
        assert row["complex"] == [decoded["complex"].real, 2]
        assert (row["maybe_image"] is None) == ("maybe_image" not in decoded)
        assert (row["png"], row["msgpack"]) == (blobs["png"], blobs["msgpack"])
        assert all(blob.startswith(b"\x89PNG") for blob in row["pngs"])
    assert rows[1]["json"] == '{"a":1}'
    assert rows[0]["jsons"] == ["null", '{"b":1}']


def test_batches_are_lazy_and_read_only_their_fields(everything: dataformats.RecordSource) -> None:
    class Spy(dataformats.RecordSource):
        def __init__(self) -> None:
            self.read_fields: list[tuple[str, ...]] = []

        @property
        def spec(self) -> Spec:
            return Spec({"n": "int64", "square": "int64"})

        @property
        def fingerprint(self) -> str:
            return "spy"

        def __len__(self) -> int:
            return 10_000

        def read(
            self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None
        ) -> dataformats.RecordBatch:
            numbers = np.asarray(indices)
            self.read_fields.append(tuple(self.mask(fields)))
            columns = {"n": numbers, "square": numbers**2}
            return dataformats.RecordBatch({name: columns[name] for name in self.mask(fields)}, numbers)

    spy = Spy()
    reader = spy.to_batches(100, ["square"])
    assert reader.schema.names == ["square"]
    assert spy.read_fields == []
    assert reader.read_next_batch().column("square")[99].as_py() == 99**2
    assert len(spy.read_fields) <= 2
    assert set(spy.read_fields) == {("square",)}
    for _ in range(2):  # a stream can be taken again
        assert arrow.table(spy).num_rows == 10_000


def test_computed_values_are_encoded_for_arrow() -> None:
    class Pictures(dataformats.RecordSource):
        @property
        def spec(self) -> Spec:
            return Spec({"png": "png", "doc": "json?"})

        @property
        def fingerprint(self) -> str:
            return "pictures"

        def __len__(self) -> int:
            return 3

        def read(
            self, indices: Any, fields: Any = None, on_corrupt: Any = "raise", decode: Any = None
        ) -> dataformats.RecordBatch:
            numbers = np.asarray(indices)
            docs = dataformats.Nullable([[int(i)] if i else None for i in numbers], numbers > 0)
            columns: dict[str, Any] = {"png": [np.full((2, 2), i, np.uint8) for i in numbers], "doc": docs}
            return dataformats.RecordBatch({name: columns[name] for name in self.mask(fields)}, numbers)

    table = dataformats.concat([Pictures(), Pictures()[1:]]).to_arrow()
    assert table.schema == arrow_schema(Pictures().spec)
    assert table["doc"].to_pylist() == [None, "[1]", "[2]", "[1]", "[2]"]
    assert all(blob.startswith(b"\x89PNG") for blob in table["png"].to_pylist())


def test_media_structs(everything: dataformats.RecordSource) -> None:
    table = everything.select("png", "pngs", "blob").to_arrow(media_structs=True)
    assert table.schema.field("png").type == arrow.struct({"bytes": arrow.binary(), "path": arrow.string()})
    rows, plain = table.to_pylist(), everything.select("png", "pngs").to_arrow().to_pylist()
    assert [row["png"] for row in rows] == [{"bytes": row["png"], "path": None} for row in plain]
    assert [len(row["pngs"]) for row in rows] == list(range(6))
    assert table.schema.field("blob").type == arrow.large_binary()


@loop_over("codec", [*NUMBER_TYPES, "bytes", "utf8", "json", "msgpack", "array", "jpg", "int"])
def test_every_type_has_one_arrow_type(tmp_path: Path, codec: str) -> None:
    if codec == "float128" and not hasattr(np, "float128"):
        pytest.skip("no float128 here")
    kinds = [codec, f"{codec}?", f"{codec}[]", f"{codec}[2]", f"{codec}[][2]?"]
    spec = {str(number): kind for number, kind in enumerate(kinds)}
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec=spec):
        pass
    assert dataformats.open(tmp_path / "x.ffr").to_arrow().schema == arrow_schema(Spec(spec))


def test_single_values(tmp_path: Path) -> None:
    cases: list[tuple[str, list[Any], Any]] = [
        ("bytes", [b"a", b""], arrow.large_binary()),
        ("json", [{"a": 1}, [2]], arrow.large_string()),
        ("msgpack", [{"a": 1}, b"2"], arrow.large_binary()),
    ]
    for payload, values, kind in cases:
        path = tmp_path / f"{payload}.ffr"
        with dataformats.create(path, "ffrecord", payload=payload) as out:
            out.extend(values)
        source = dataformats.open(path)
        assert source.to_arrow().schema.field("value").type == kind
        assert source.to_arrow()["value"].to_pylist()[0] in (b"a", '{"a":1}', b"\x81\xa1a\x01")


def test_numbers_are_not_copied(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"x": "float32[1024]", "b": "bytes"}) as out:
        out.extend([{"x": np.full(1024, i, np.float32), "b": bytes(10)} for i in range(1000)])
    batch = dataformats.open(tmp_path / "x.ffr").read(range(1000))
    for name in ("x", "b"):
        array = batch[name].values if name == "b" else batch[name]
        assert arrow.record_batch(batch.to_arrow()).column(name).buffers()[-1].address == array.ctypes.data


def test_missing_lists_leave_no_nulls_inside(tmp_path: Path) -> None:
    """Nulls would let pandas convert integers to floats, and round the large ones."""
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"x": "int64[2]?", "n": "int64?"}) as out:
        out.extend([{"x": [2**63 - 1, 1], "n": 1}, {}])
    table = dataformats.open(tmp_path / "x.ffr", spec={"x": "int64[2]?", "n": "int64?"}).to_arrow()
    assert table.to_pylist() == [{"x": [2**63 - 1, 1], "n": 1}, {"x": None, "n": None}]
    lists = table["x"].combine_chunks()
    assert (lists.null_count, lists.values.null_count) == (1, 0)


def test_errors(everything: dataformats.RecordSource, tmp_path: Path) -> None:
    with pytest.raises(dataformats.errors.SpecError, match=r"map\(\)"):
        everything.map(len).to_arrow()
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        everything.to_batches(0)
    with dataformats.create(tmp_path / "x.ffr", "ffrecord", spec={"i": "int"}) as out:
        out.extend([{"i": 2**64}])
    with pytest.raises(dataformats.errors.SpecError, match="with_spec"):
        dataformats.open(tmp_path / "x.ffr").to_arrow()
    with dataformats.create(tmp_path / "g", "granular", spec={"p": "array"}) as out:
        out.append({"p": np.zeros(3)})
    (tmp_path / "g.dataformats.json").unlink(missing_ok=True)
    (tmp_path / "g" / "spec.json").write_text('{"p": "array(float64,99999999999)"}')
    with pytest.raises(dataformats.errors.SpecError, match=r"array\(float64,99999999999\): expected sizes below 2"):
        dataformats.open(tmp_path / "g").to_arrow()
    mixed = dataformats.RecordBatch({"x": [1, "a"]}, np.arange(2))
    with pytest.raises(dataformats.errors.SpecError, match="one type"):
        mixed.to_arrow()


def test_damaged_record_raises_in_record_batch_reader() -> None:
    source = dataformats.open(GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord")
    reader = source.to_batches(1)
    with pytest.raises(dataformats.errors.FormatError):
        reader.read_all()
