"""Tables that other programs wrote: Parquet, Arrow IPC, CSV."""

from __future__ import annotations

import importlib
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.columns import arrow_columns
from dataformats.errors import CodecError, FormatError, SpecError
from dataformats.testing.loop_over import loop_over

N = 50


def pixels(i: int) -> Any:
    return np.full((4, 3, 3), i, np.uint8)


def png(i: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels(i)).save(stream, "PNG")
    return stream.getvalue()


GOLDEN = Path(__file__).parents[1] / "golden"


@loop_over(
    "name",
    [
        "parquet/types.parquet",
        "parquet/version-1.parquet",
        "parquet/version-2.parquet",
        "arrow/types.arrow",
        "arrow/lz4.feather",
        "arrow/stream.arrow",
    ],
)
def test_golden_files(name: str) -> None:
    """Files of pyarrow, with every type."""
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    expected = json.loads((GOLDEN / "parquet" / "expected.json").read_text("utf-8"))
    source = dataformats.open(GOLDEN / name)
    order = np.random.default_rng(0).permutation(len(expected))
    assert [_plain(record) for record in source] == [_present(row) for row in expected]
    assert [_plain(record) for record in source.read(order)] == [_present(expected[i]) for i in order]
    assert (str(source.spec["label"]), str(source.spec["maybe"])) == ("int64", "int64?")
    assert dataformats.verify(GOLDEN / name).ok


def _present(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    found = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in record.items()}
    return {name: {"hex": value.hex()} if isinstance(value, bytes) else value for name, value in found.items()}


def test_golden_folder_of_hugging_face() -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    source = dataformats.open(GOLDEN / "arrow" / "hugging_face")
    assert [record["text"] for record in source] == [f"row {i}" for i in range(25)]
    assert source.read([24, 0])["label"].tolist() == [24, 0]


def test_stream_of_polars() -> None:
    """Its messages have another layout than those of pyarrow."""
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    source = dataformats.open(GOLDEN / "arrow" / "polars.arrow")
    assert list(source) == [{"n": 1, "text": "a"}, {"text": "é"}, {"n": 3, "text": ""}]


def rows() -> list[dict[str, Any]]:
    return [
        {"n": i, "text": f"é{i}", "maybe": i if i % 3 else None, "doc": {"a": [i]}, "seq": [i, 1]} for i in range(N)
    ]


def write_parquet(path: Path, table: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path, row_group_size=7)


def write_ipc(path: Path, table: Any) -> None:
    import pyarrow

    with pyarrow.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=7)


def write_ipc_stream(path: Path, table: Any) -> None:
    import pyarrow

    with pyarrow.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table)


TABLES: dict[str, Callable[[Path, Any], None]] = {
    "x.parquet": write_parquet,
    "x.arrow": write_ipc,
    "x.feather": write_ipc_stream,
}


@pytest.fixture
def table() -> Any:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    return arrow.Table.from_pylist(rows())


@loop_over("name", TABLES)
def test_tables(name: str, table: Any, tmp_path: Path) -> None:
    TABLES[name](tmp_path / name, table)
    source = dataformats.open(tmp_path / name)
    assert source.spec == {"n": "int64", "text": "utf8", "maybe": "int64?", "doc": "json", "seq": "int64[]"}
    assert len(source) == N
    for again in (source, pickle.loads(pickle.dumps(source)), source.take(range(N))):
        order = [30, 5, 5, 49, 0, 6, 7]
        batch = again.read(order)
        assert batch["n"].tolist() == order
        assert [record.get("maybe") for record in batch] == [rows()[i]["maybe"] for i in order]
        assert batch[3]["doc"] == {"a": [49]}
        assert batch[3]["seq"].tolist() == [49, 1]
    report = dataformats.convert(tmp_path / name, tmp_path / "y.ffr")
    assert report.records == N
    assert dataformats.verify(tmp_path / "y.ffr", against=tmp_path / name).ok


def test_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / "x.csv").write_text('name,n,x\n"a, b",1,0.5\nc,2,\n', "utf-8")
    (tmp_path / "y.tsv").write_text("name\tn\ntab\t3\n", "utf-8")
    assert list(dataformats.open(tmp_path / "x.csv")) == [{"name": "a, b", "n": 1, "x": 0.5}, {"name": "c", "n": 2}]
    assert list(dataformats.open(tmp_path / "y.tsv")) == [{"name": "tab", "n": 3}]


def test_declared_types_of_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / "0.csv").write_text("zip,x,tags\n00123,1,[1]\n", "utf-8")
    (tmp_path / "1.csv").write_text("zip,x,tags\n04567,0.5,[]\n", "utf-8")
    assert dataformats.open(tmp_path).spec == {"zip": "utf8", "x": "float64", "tags": "utf8"}
    source = dataformats.open(tmp_path, spec={"zip": "utf8", "x": "float32", "tags": "json"})
    expected = [{"zip": "00123", "x": 1.0, "tags": [1]}, {"zip": "04567", "x": 0.5, "tags": []}]
    assert list(source) == list(pickle.loads(pickle.dumps(source))) == expected


def test_inferred_numbers_of_csv_keep_their_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "0.csv").write_text("zip,id,n,x\n10713,5,1,1e300\n", "utf-8")
    (tmp_path / "1.csv").write_text("zip,id,n,x\n02116,18446744073709551615,99999999999999999999,00.5\n", "utf-8")
    src = dataformats.open([tmp_path / "0.csv", tmp_path / "1.csv"])
    assert src.spec.to_json() == {"zip": "utf8", "id": "uint64", "n": "utf8", "x": "float64"}
    assert src[0] == {"zip": "10713", "id": 5, "n": "1", "x": 1e300}
    assert src[1] == {"zip": "02116", "id": 2**64 - 1, "n": "99999999999999999999", "x": 0.5}
    assert src.with_spec({"zip": "int64"})[1]["zip"] == 2116


def test_far_times_of_parquet_are_right(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = ["1500-01-02 03:04:05.000006", None, "2024-01-02 03:04:05.000006", "9999-12-23 23:59:59.000000"]
    table = arrow.table({"t": arrow.array(times).cast(arrow.timestamp("us")), "n": [0, 1, 2, 3]})
    parquet.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)  # as Spark does
    found = [record.get("t") for record in dataformats.open(tmp_path / "x.parquet")]
    assert found == [time and f"{time}000" for time in times]


def test_packed_and_sparse_arrays_are_facts_of_info(tmp_path: Path) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    how = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -1}
    for chunks in (None, (1,)):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("t2m", data=np.array([0, 100, -1], np.int16), chunks=chunks, shuffle=chunks is not None)
            file["t2m"].attrs.update(how)
        packed = dataformats.info(tmp_path / "x.h5").metadata
        assert packed == {"field t2m is packed": "scale_factor 0.01, add_offset 273.15, _FillValue -1: read as stored"}
    array = zarr.open_group(tmp_path / "x.zarr", mode="w").create_array("t2m", shape=(6,), chunks=(2,), dtype="i2")
    array[:4], array.attrs["scale_factor"] = [1, 2, 3, 4], 0.5
    found = dataformats.info(tmp_path / "x.zarr").metadata
    assert found["field t2m is packed"] == "scale_factor 0.5: read as stored"
    assert found["field t2m is sparse"] == "1 of 3 chunks are not there, and are read as 0"


def test_csv_is_read_again_as_other_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    path = tmp_path / "x.csv"
    path.write_text("zip,x\n00123,0.5\n04567,\n", "utf-8")
    source = dataformats.open(path)
    assert source.spec == {"zip": "utf8", "x": "float64?"}
    assert source.spec_facts.provenance == "inferred"
    text = pickle.loads(pickle.dumps(source[1:].with_spec({"zip": "utf8"})))
    assert (list(text), text.spec_facts.provenance) == ([{"zip": "04567"}], "declared")
    dataformats.convert(path, tmp_path / "x.parquet", spec={"zip": "utf8", "x": "float32?"})
    assert list(dataformats.open(tmp_path / "x.parquet")) == [{"zip": "00123", "x": 0.5}, {"zip": "04567"}]
    (finding,) = dataformats.verify(tmp_path / "x.parquet", against=path).findings
    assert (finding.expected, finding.found) == ("float64 0.5", "float32 0.5")


def test_csv_with_words_for_null_alone(tmp_path: Path) -> None:
    """Namibia is `NA`; a column without any text is missing, and words in a column of numbers are, too."""
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / "2.csv").write_text("country,n,none\nNA,NA,\n", "utf-8")
    (tmp_path / "3.csv").write_text("country,n,none\nDE,7,\n", "utf-8")
    assert list(dataformats.open(tmp_path / "2.csv")) == [{"country": "NA", "n": "NA"}]
    both = dataformats.open([tmp_path / "2.csv", tmp_path / "3.csv"])
    assert list(both) == [{"country": "NA"}, {"country": "DE", "n": 7}]


def test_delimiters_of_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1;2,5\n", "utf-8")
    assert dataformats.open(path)[0] == {"a": 1, "b": "2,5"}
    path.write_text("a|b;c\n1|2\n", "utf-8")
    assert dataformats.open(path, delimiter="|")[0] == {"a": 1, "b;c": 2}
    path.write_bytes(b"# b\n\xe4,b\n")
    with pytest.raises(FormatError, match=r",b' .*: expected 1, found 2. .* delimiter="):
        dataformats.open(path)


def test_chunks_too_large_for_one_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    chunks = [arrow.array(["a", None, "c"]), arrow.array(["d"])], [arrow.array([[1], [2, 3], []]), arrow.array([[4]])]
    table = arrow.table(dict(zip("xy", map(arrow.chunked_array, chunks), strict=True)))
    parquet.write_table(table, str(tmp_path / "x.parquet"))
    monkeypatch.setattr(arrow_columns, "_MAX_JOINED", 1)
    batch = arrow_columns.batch_of_arrow(table, dataformats.open(tmp_path / "x.parquet").spec)
    assert [record.get("x") for record in batch] == ["a", None, "c", "d"]
    assert [record["y"].tolist() for record in batch] == [[1], [2, 3], [], [4]]


def test_csv_without_a_line_of_names(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.csv").write_text("0,5.1\n1,4.9\n1\n", "utf-8")
    assert dataformats.info(tmp_path / "x.csv").notes == (
        "the names of all fields are numbers: if they are a record, pass names=",
    )
    for names in ("label,x", ["label", "x"]):
        source = dataformats.open(tmp_path / "x.csv", names=names)
        assert list(source[:2]) == [{"label": 0, "x": 5.1}, {"label": 1, "x": 4.9}]
        with pytest.raises(FormatError, match=r"record 2 of .*number of cells"):
            source[2]
    (tmp_path / "y.csv").write_text("0,1\n5,6\n", "utf-8")  # as pandas writes arrays
    assert not dataformats.info(tmp_path / "y.csv").notes


def test_csv_in_another_encoding(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.csv").write_bytes("name,n\ncafé,1\n".encode("latin-1"))
    (note,) = dataformats.info(tmp_path / "x.csv").notes
    assert note == "field 'name' holds text that is not UTF-8: for Latin-1, pass encoding='latin-1'"
    assert dataformats.open(tmp_path / "x.csv", encoding="latin-1")[0] == {"name": "café", "n": 1}


def test_csv_with_long_cells(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.csv").write_text("".join(f'{name},"{name * 3_000_000}"\n' for name in "kab"), "utf-8")
    source = dataformats.open(tmp_path / "x.csv", names=["name", "text"])
    assert [(record["name"], record["text"] == record["name"] * 3_000_000) for record in source] == [
        (name, True) for name in "kab"
    ]


def test_csv_with_escaped_quotes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "x.csv").write_text('a,b\n"says \\"hi, you\\"",1\n', "utf-8")
    assert dataformats.open(tmp_path / "x.csv", escape="\\")[0] == {"a": 'says "hi, you"', "b": 1}


def test_columns_of_one_name(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.Table.from_arrays([arrow.array([1, None]), arrow.array([3, 4])], names=["v", "v"])
    parquet.write_table(table, tmp_path / "x.parquet")
    with arrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "x.csv").write_text("v,v\n1,2\n", "utf-8")
    for name in ("x.parquet", "x.arrow", "x.csv"):
        with pytest.raises(SpecError, match="field 'v': expected one column of this name, found several"):
            dataformats.open(tmp_path / name)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_records_of_one_column_named_value(suffix: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    path = tmp_path / f"x.{suffix}"
    if suffix == "csv":
        path.write_text("value\n1\n2\n", "utf-8")
    else:
        write_parquet(path, arrow.table({"value": [1, 2]}))
    dataformats.convert(path, tmp_path / "copy.parquet")
    for source in (dataformats.open(path), dataformats.open(tmp_path / "copy.parquet")):
        assert list(source) == list(source.read([0, 1])) == [{"value": 1}, {"value": 2}]


def test_text_and_bytes_take_the_types_of_the_new_data(table: Any, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    image = {"bytes": png(1), "path": None}
    write_parquet(tmp_path / "x.parquet", arrow.table({"image": [image] * 3, "doc": ['{"a": 1}', "[2]", "3"]}))
    spec = {"image": "png", "doc": "json"}
    dataformats.convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord", spec=spec)
    found = dataformats.open(tmp_path / "x.tfrecord")
    assert [record["doc"] for record in found] == [{"a": 1}, [2], 3]
    assert np.array_equal(found[2]["image"], pixels(1))
    assert found.with_spec({**spec, "image": "bytes"})[0]["image"] == png(1)
    with pytest.raises(CodecError, match=r"record 0 of .*x\.parquet.*JPEG"):
        dataformats.open(tmp_path / "x.parquet", spec={"image": "jpg"})[0]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_json_is_marked_for_other_programs(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    docs: list[Any] = [{"a": "é"}, [1, None], None]
    with dataformats.create(tmp_path / name, spec={"doc": "json", "docs": "json[]", "maybe": "json?"}) as out:
        out.extend({"doc": doc, "docs": [doc], "maybe": doc} for doc in docs)
    found = list(dataformats.open(tmp_path / name))
    assert found == [{"doc": d, "docs": [d]} | ({} if d is None else {"maybe": d}) for d in docs]
    (tmp_path / f"{name}.dataformats.json").unlink()
    source = dataformats.open(tmp_path / name)
    assert source.spec == {"doc": "json", "docs": "utf8[]", "maybe": "json?"}
    assert [record["doc"] for record in source] == docs
    assert list(source.with_spec({"doc": "utf8"}))[1] == {"doc": "[1,null]", "docs": ["[1,null]"], "maybe": [1, None]}
    schema = importlib.import_module("pyarrow.dataset").dataset(tmp_path / name, format=name[2:]).schema
    assert schema.field("doc").type == arrow.json_(arrow.large_string())


def test_json_of_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    for number in range(2):
        rows = f"""select json('{{"a":{number}}}') as doc, '[]' as text"""
        duckdb.sql(f"copy ({rows}) to '{tmp_path / f'{number}.parquet'}'")
    assert list(dataformats.open(tmp_path)) == [{"doc": {"a": number}, "text": "[]"} for number in range(2)]


@loop_over("out", ["y.parquet", "y.arrow"])
@loop_over("workers", [0, 1])
def test_lists_of_text_are_copied(out: str, workers: int, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    words = [[f"é{i}"] * (i % 4) for i in range(N)]
    blobs = [[bytes([i]), b""][: i % 3] for i in range(N)]
    lists = {"words": words, "blobs": arrow.array(blobs, arrow.list_(arrow.binary()))}
    write_parquet(tmp_path / "x.parquet", arrow.table(lists))
    assert dataformats.open(tmp_path / "x.parquet").spec == {"words": "utf8[]?", "blobs": "bytes[]?"}
    dataformats.convert(tmp_path / "x.parquet", tmp_path / out, workers=workers)
    found = dataformats.open(tmp_path / out)
    assert [(record["words"], record["blobs"]) for record in found] == list(zip(words, blobs, strict=True))
    assert dataformats.verify(tmp_path / out, against=tmp_path / "x.parquet").ok


@loop_over("name", ["x.parquet", "x.arrow"])
def test_dates_within_maps_are_text(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    when, kind = [("k", [0, None])], arrow.map_(arrow.string(), arrow.list_(arrow.timestamp("ns", "UTC")))
    TABLES[name](tmp_path / name, arrow.table({"when": arrow.array([when, None], kind), "n": [1, 2]}))
    source = dataformats.open(tmp_path / name)
    assert list(source) == [{"when": [["k", ["1970-01-01 00:00:00.000000000Z", None]]], "n": 1}, {"n": 2}]
    dataformats.convert(source, tmp_path / "y.jsonl")
    assert dataformats.open(tmp_path / "y.jsonl")[0] == source[0]


@loop_over("name", ["x.parquet", "x.arrow"])
@loop_over("values", [[["a", None], [], None], [[1, None], [2], None]])
def test_nulls_in_lists(name: str, values: list[Any], tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    TABLES[name](tmp_path / name, arrow.table({"list": values}))
    with pytest.raises(CodecError, match=r"found null\. .* pass spec=.*'list': 'json\?'"):
        dataformats.open(tmp_path / name)[0]
    source = dataformats.open(tmp_path / name, spec={"list": "json?"})
    for one in (source, pickle.loads(pickle.dumps(source))):
        assert [record.get("list") for record in one] == values


def test_type_of_another_program_costs_no_other_column(tmp_path: Path) -> None:
    """Its class in Python may have no hash, as that of Lance's bfloat16."""
    pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

    class Short(pa.ExtensionType):  # type: ignore[misc, name-defined]  # pyarrow is imported here
        def __eq__(self, other: object) -> bool:  # so it has no hash
            return isinstance(other, Short)

        def __init__(self) -> None:
            super().__init__(pa.binary(2), "tests.short")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Short:
            return cls()

    pa.register_extension_type(Short())
    try:
        values = pa.ExtensionArray.from_storage(Short(), pa.array([b"ab", b"cd"], pa.binary(2)))
        TABLES["x.parquet"](tmp_path / "x.parquet", pa.table({"short": values, "n": [1, 2]}))
        assert dataformats.open(tmp_path / "x.parquet")[1] == {"short": b"cd", "n": 2}
    finally:
        pa.unregister_extension_type("tests.short")


def test_intervals_are_opaque(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    span = pa.MonthDayNano([1, 2, 3])
    kind = pa.month_day_nano_interval()
    table = pa.table(
        {"n": [1, 2], "span": pa.array([span, None], kind), "spans": pa.array([[span], []], pa.list_(kind))}
    )
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    source = dataformats.open(tmp_path / "x.arrow")
    assert {name: str(kind) for name, kind in source.spec_facts.opaque_fields.items()} == {
        "span": "month_day_nano_interval?"
    }
    blob = b"".join(n.to_bytes(size, "little") for n, size in ((1, 4), (2, 4), (3, 8)))
    assert list(source) == [{"n": 1, "span": blob, "spans": [[1, 2, 3]]}, {"n": 2, "spans": []}]


def test_maps_are_equal_to_their_copies(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    pairs = arrow.array([[("a", 1)], []], arrow.map_(arrow.string(), arrow.int64()))
    write_parquet(
        tmp_path / "x.parquet", arrow.table({"map": pairs, "in": arrow.StructArray.from_arrays([pairs], ["m"])})
    )
    assert dataformats.open(tmp_path / "x.parquet")[0] == {"map": [["a", 1]], "in": {"m": [["a", 1]]}}
    dataformats.convert(tmp_path / "x.parquet", tmp_path / "y.ffr")
    assert dataformats.verify(tmp_path / "y.ffr", against=tmp_path / "x.parquet").ok


def test_missing_lists_of_text(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    path, spec = tmp_path / "x.parquet", {"words": "utf8[]"}
    write_parquet(path, arrow.table({"words": [["a"], None, []]}))
    for name in ("copy.parquet", "copy.arrow"):
        dataformats.convert(path, tmp_path / name)
        assert list(dataformats.open(tmp_path / name)) == [{"words": ["a"]}, {}, {"words": []}]
    dataformats.convert(path, tmp_path / "y.parquet", source_options={"spec": spec})
    assert [record["words"] for record in dataformats.open(tmp_path / "y.parquet")] == [["a"], [], []]
    assert dataformats.open(path)[1] == {}
    batch = dataformats.open(path, spec=spec).read([2, 1, 0])
    assert [list(words) for words in batch["words"]] == [[], [], ["a"]]
    with dataformats.create(tmp_path / "z.arrow", spec={"words": "utf8[]?"}) as writer:
        writer.extend([{"words": []}, {}, {"words": None}, {"words": ["b"]}])
    assert list(dataformats.open(tmp_path / "z.arrow")) == [{"words": []}, {}, {}, {"words": ["b"]}]


def test_several_tables_are_one_dataset(table: Any, tmp_path: Path) -> None:
    for number in range(3):
        write_parquet(tmp_path / f"part-{number}.parquet", table)
    for path in (tmp_path, tmp_path / "part-*.parquet", [tmp_path / f"part-{number}.parquet" for number in range(3)]):
        assert len(dataformats.open(path)) == 3 * N
    assert dataformats.open(tmp_path).origins([2 * N]) == [(str(tmp_path / "part-2.parquet"), 2 * N, -1)]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_columns_missing_in_a_file_are_optional(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    tables = [
        arrow.table({"n": [1, 2]}),
        arrow.table({"cap": ["x"], "n": [3], "box": [[1.5]]}),
        arrow.table({"n": [4], "meta": [{"a": 1}]}),
    ]
    for number, one in enumerate(tables):
        TABLES[name](tmp_path / f"{number}-{name}", one)
    source = dataformats.open(tmp_path)
    kinds = {"n": "int64", "cap": "utf8?", "box": "float64[]?", "meta": "json?"}
    assert source.spec == kinds
    assert [_plain(record) for record in source] == [
        {"n": 1}, {"n": 2}, {"n": 3, "cap": "x", "box": [1.5]}, {"n": 4, "meta": {"a": 1}}
    ]  # fmt: skip
    assert source.select("cap", "meta")[0] == {}
    declared = dataformats.open(tmp_path, spec={"cap": "bytes?"})
    assert declared.spec == {**source.spec, "cap": dataformats.Type.parse("bytes?")}
    assert declared.read([2, 0], ["cap"])["cap"][0] == b"x"
    with pytest.raises(SpecError, match="'cap': expected bytes, found nothing"):
        dataformats.open(tmp_path, spec={"cap": "bytes"})[0]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_declared_types_of_numbers_are_cast(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    kinds = [arrow.int32(), arrow.int64(), arrow.float64()]
    for number, kind in enumerate(kinds):
        rows = {"n": arrow.array([number, number + 10], kind), "l": arrow.array([[1], [2, 3]], arrow.list_(kind))}
        TABLES[name](tmp_path / f"{number}-{name}", arrow.table(rows))
    assert dataformats.open(tmp_path).spec == {"n": "float64", "l": "float64[]"}
    source = dataformats.open(tmp_path, spec={"n": "float64", "l": "float32[]"})
    assert source.read(range(6))["n"].tolist() == [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]
    assert source.read([5, 0])["l"].values.tolist() == [2, 3, 1]
    ints = dataformats.open([tmp_path / f"{number}-{name}" for number in (0, 1)], spec={"n": "int64", "l": "int8[]"})
    column = ints.read([3, 0])["n"]
    assert (column.dtype, column.tolist()) == (np.int64, [11, 0])
    with pytest.raises(SpecError, match="stored as float64, which cannot be read as int64"):
        dataformats.open(tmp_path, spec={"n": "int64", "l": "float64[]"})


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_casts_are_exact(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    images = np.arange(3 * 24, dtype=np.uint8).reshape(3, 4, 3, 2)
    nested = arrow.array(images.tolist(), arrow.list_(arrow.list_(arrow.list_(arrow.uint8()))))
    rows = {"n": [1, 300, 3], "big": [1, 2**53 + 1, 3], "image": nested, "row": [[1.0, 2.0], [3.0], [5.0, 6.0]]}
    TABLES[name](tmp_path / name, arrow.table(rows))
    spec = {"n": "uint8", "big": "float64", "image": "uint8[4,3,2]", "row": "float32[2]"}
    for field, kind in spec.items():
        source = dataformats.open(tmp_path / name, spec={field: kind})
        assert source.spec[field] == dataformats.Type.parse(kind)
        batch = source.read(range(3) if field == "image" else [0, 2])
        assert batch[field].dtype == dataformats.Type.parse(kind).dtype
        if field != "image":
            with pytest.raises(SpecError, match=f"record 1 of .*, field '{field}': expected"):
                source.read(range(3), on_corrupt="omit")
    assert np.array_equal(dataformats.open(tmp_path / name, spec=spec).read([2, 0])["image"], images[[2, 0]])
    for wrong in ({"row": "int64[]"}, {"n": "bool"}, {"n": "int64[1]"}, {"image": "uint8"}):
        with pytest.raises(SpecError, match="cannot be read as"):
            dataformats.open(tmp_path / name, spec=wrong)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_a_bad_row_costs_one_row(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    images: list[Any] = [{"bytes": b"a", "path": None} for _ in range(100)]
    images[40] = {"bytes": None, "path": "lost.png"}
    lists: list[Any] = [[1, number] for number in range(100)]
    lists[60] = [1, None]
    media = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    TABLES[name](tmp_path / name, arrow.table({"n": range(100), "l": lists, "image": arrow.array(images, media)}))
    source = dataformats.open(tmp_path / name)
    sound = [number for number in range(100) if number not in (40, 60)]
    batch = source.read(range(100), on_corrupt="omit")
    assert (batch["n"].tolist(), sorted(batch.failed)) == (sound, [40, 60])
    assert [item.tolist() for item in batch["l"]] == [[1, number] for number in sound]
    assert [record["n"] for record in source.read([99, 60, 3, 60, 61], on_corrupt="omit")] == [99, 3, 61]
    assert source[39]["n"] == 39
    assert source.select("n").read(range(100))["n"].tolist() == list(range(100))
    for index, said in (
        (40, "'image': expected the bytes of a file"),
        (60, "'l': expected int64 in a list, found null"),
    ):
        for read in (lambda index=index: source[index], lambda index=index: source.read([3, index])):
            with pytest.raises(CodecError, match=rf"record {index} of .*{said}") as caught:
                read()
            assert caught.value.index == index
    assert [finding.index for finding in dataformats.verify(tmp_path / name).findings] == [40, 60]
    with dataformats.Loader(source, 10, shuffle=False, on_corrupt="omit") as loader:
        assert [number for step in loader for number in step["n"].tolist()] == sound


def test_a_row_of_another_length_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("n,text,x\n" + "".join(f'{n},"a\nb",{n}.5\n' if n != 7 else "7,8\n" for n in range(20)))
    source = dataformats.open(path)
    batch = source.read([8, 7, 6], on_corrupt="omit")
    assert (batch["n"].tolist(), list(batch["text"]), [*batch.failed]) == ([8, 6], ["a\nb"] * 2, [7])
    with pytest.raises(FormatError, match=r"record 7 of .*'7,8' has another number of cells.* expected 3, found 2"):
        source[7]
    assert [finding.index for finding in dataformats.verify(path).findings] == [7]
    path.write_text("n,text,x\n" + "1;2;3\n" * 20)
    with pytest.raises(FormatError, match=r"'1;2;3' has another number of cells.* pass delimiter="):
        dataformats.open(path)


@loop_over("name", ["x.parquet", "x.arrow"])
def test_files_with_a_path_alone(name: str, tmp_path: Path) -> None:
    """The remedy of the error reads them."""
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    media = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    files = [{"bytes": b"a", "path": None}, {"bytes": None, "path": "there.png"}, None]
    every = {"one": arrow.array(files, media), "several": arrow.array([files[:2], [], None], arrow.list_(media))}
    TABLES[name](tmp_path / name, arrow.table(every))
    for field, values in (("one", files), ("several", [files[:2], [], None])):
        with pytest.raises(CodecError, match=rf"pass spec={{'{field}': 'msgpack\?'}}"):
            dataformats.open(tmp_path / name).select(field).read([0, 1])
        source = dataformats.open(tmp_path / name, spec={field: "msgpack?"})
        assert [record.get(field) for record in source.select(field)] == values


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_files_of_several_schemas(name: str, tmp_path: Path) -> None:
    """pandas writes nulls for a column without values, Polars large strings, and each may order the columns."""
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    tables = [
        arrow.table({"n": [1], "text": arrow.array(["a"]), "maybe": arrow.nulls(1)}),
        arrow.table({"text": arrow.array(["b"], arrow.large_string()), "maybe": [[2]], "n": [2]}),
        arrow.table({"n": [3], "text": arrow.array(["c"]).dictionary_encode(), "maybe": arrow.nulls(1)}),
    ]
    for number, one in enumerate(tables):
        TABLES[name](tmp_path / f"{number}-{name}", one)
    source = dataformats.open(tmp_path)
    assert source.spec.to_json() == {"n": "int64", "text": "utf8", "maybe": "int64[]?"}
    expected = [{"n": 1, "text": "a"}, {"n": 2, "text": "b", "maybe": [2]}, {"n": 3, "text": "c"}]
    assert [_plain(record) for record in source] == expected
    assert source.read([2, 1, 0])["n"].tolist() == [3, 2, 1]
    TABLES[name](tmp_path / f"3-{name}", arrow.table({"n": ["x"], "text": ["d"], "maybe": [[2]]}))
    with pytest.raises(SpecError, match=r"'n': expected int64 as in .*0-x.*, found utf8 in .*3-x"):
        dataformats.open(tmp_path)


@loop_over("name", TABLES)
def test_damaged_tables(name: str, table: Any, tmp_path: Path) -> None:
    TABLES[name](tmp_path / name, table)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] + b"\0" * 8)
    with pytest.raises(FormatError, match=name):
        list(dataformats.open(tmp_path / name))


def test_a_parquet_column_of_another_type_than_the_schema(table: Any, tmp_path: Path) -> None:
    """pyarrow ends the process if the statistics of such a column are asked for; it reads by the schema."""
    path = tmp_path / "x.parquet"
    write_parquet(path, table)
    expected = str(list(dataformats.open(path)))
    whole = path.read_bytes()
    byte_array, unknown = b"\x15\x0c\x19", b"\x15\x10\x19"  # Thrift: the type of a column, then its encodings
    assert byte_array in whole
    path.write_bytes(whole.replace(byte_array, unknown))
    assert str(list(dataformats.open(path))) == expected


@pytest.mark.parametrize("place", [-8, -5])
def test_damaged_footers(place: int, table: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path, table)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x7F
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.parquet"):
        list(dataformats.open(path))


def test_folders_behind_urls(table: Any, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    for number in (2, 10):
        write_parquet(tmp_path / f"{number}.parquet", table.slice(number))
    (tmp_path / "_SUCCESS").write_bytes(b"")  # Spark leaves it
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/rows", recursive=True)
    try:
        for name in ("", "/*.parquet"):
            expected, found = dataformats.open(f"{tmp_path}{name}"), dataformats.open(f"memory://rows{name}")
            assert found.fingerprint == expected.fingerprint
            assert str(list(found)) == str(list(expected))
    finally:
        memory.rm("/rows", recursive=True)


def test_a_dataset_of_hugging_face(tmp_path: Path) -> None:
    """`datasets.save_to_disk` lists its files."""
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    for number in range(2):
        write_ipc_stream(
            tmp_path / f"data-{number:05d}-of-00002.arrow", arrow.table({"n": [2 * number, 2 * number + 1]})
        )
    write_ipc_stream(tmp_path / "cache-1.arrow", arrow.table({"other": [7]}))
    names = [{"filename": f"data-{number:05d}-of-00002.arrow"} for number in range(2)]
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": names}), "utf-8")
    (tmp_path / "dataset_info.json").write_text("{}", "utf-8")
    assert [record["n"] for record in dataformats.open(tmp_path)] == [0, 1, 2, 3]
    (tmp_path / "state.json").unlink()
    (tmp_path / "cache-1.arrow").rename(tmp_path / "cache-9e12e6fc5c4e6449.arrow")
    assert [record["n"] for record in dataformats.open(tmp_path)] == [0, 1, 2, 3]
    (tmp_path / "dataset_info.json").unlink()
    assert len(dataformats.open(tmp_path)) == 5


def test_an_empty_dataset_of_hugging_face(tmp_path: Path) -> None:
    """`datasets.save_to_disk` writes no file of records, and the types apart."""
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / "state.json").write_text('{"_data_files": []}', "utf-8")
    number, text = {"dtype": "int64", "_type": "Value"}, {"dtype": "string", "_type": "Value"}
    info = {
        "n": number,
        "label": {"names": ["x", "y"], "_type": "ClassLabel"},
        "image": {"_type": "Image"},
        "three": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 3, "_type": "List"},
        "table": {"shape": [2, 3], "dtype": "uint8", "_type": "Array2D"},
        "at": {"dtype": "timestamp[us, tz=UTC]", "_type": "Value"},
        "money": {"dtype": "decimal128(10, 2)", "_type": "Value"},
        "nested": {"x": number, "_type": [text]},
    }
    (tmp_path / "dataset_info.json").write_text(json.dumps({"features": info}), "utf-8")
    source = dataformats.open(tmp_path)
    assert (len(source), list(source), dataformats.verify(tmp_path).ok) == (0, [], True)
    types = ["int64", "int64", "bytes", "float32[3]", "uint8[2,3]", "utf8", "utf8", "json"]
    assert list(source.spec.to_text().values()) == types
    assert source.spec["label"].class_names == ("x", "y")
    for wrong in ({"_type": "Other"}, {"dtype": "decimal128(1e9)", "_type": "Value"}, 7):
        (tmp_path / "dataset_info.json").write_text(json.dumps({"features": {"n": wrong}}), "utf-8")
        with pytest.raises(FormatError, match=r"dataset_info.json': the types of the fields are damaged or unknown"):
            dataformats.open(tmp_path)


@loop_over(
    "state, message",
    [
        (b'{"_data_files": [{"filename": "data-0.arrow"}', "list of files is damaged"),
        (b'{"_data_files": [{"name": "data-0.arrow"}]}', "list of files is damaged"),
        (b"\xff" * 9, "list of files is damaged"),
        (b'{"_data_files": [{"filename": "../outside.arrow"}]}', r"not beside it: expected .*\.\./outside"),
    ],
)
def test_damaged_state_of_hugging_face(state: bytes, message: str, table: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for path in (folder / "data-0.arrow", tmp_path / "outside.arrow"):
        write_ipc_stream(path, table)
    (folder / "state.json").write_bytes(state)
    with pytest.raises(FormatError, match=f"state.json.*{message}"):
        dataformats.open(folder)


def test_the_state_of_another_program(table: Any, tmp_path: Path) -> None:
    """It says nothing about the files, whatever they are."""
    (tmp_path / "state.json").write_text('{"step": 7}', "utf-8")
    write_ipc(tmp_path / "x.arrow", table)
    assert len(dataformats.open(tmp_path)) == N
    (tmp_path / "x.arrow").unlink()
    write_parquet(tmp_path / "x.parquet", table)
    (tmp_path / "state.json").write_bytes(b"no JSON")
    assert len(dataformats.open(tmp_path)) == N


def test_a_damaged_record_batch(tmp_path: Path) -> None:
    """pyarrow ends the process if it counts the bytes of a list whose offsets are damaged."""
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    path = tmp_path / "x.arrow"
    write_ipc(path, arrow.table({"seq": [["xyz"] * 8] * N}))
    data = bytearray(path.read_bytes())
    whole = np.arange(0, 8 * 8, 8, dtype="<i4").tobytes()
    at = data.index(whole)
    data[at + 28 : at + 32] = (2**31 - 5).to_bytes(4, "little")  # the end of the last list of the first batch
    path.write_bytes(data)
    source = dataformats.open(path)
    batch = source.read(range(N), on_corrupt="omit")
    assert list(batch.failed) == list(range(7))
    assert len(batch) == N - 7


@pytest.mark.parametrize("name", ["x.csv", "y.tsv"])
def test_csv_header_with_other_bytes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / name).write_bytes(b"a\xff\n1\n")
    with pytest.raises(FormatError, match=name):
        dataformats.open(tmp_path / name)


@pytest.mark.parametrize(
    "names", [("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"), ("train", "validation")]
)
def test_splits_are_not_one_dataset(names: tuple[str, ...], table: Any, tmp_path: Path) -> None:
    """Folders of the Hugging Face hub have training and test data side by side."""
    for name in names:
        write_parquet(tmp_path / f"{name}.parquet", table)
    for format in (None, "parquet"):
        with pytest.raises(FormatError, match=r"several splits: found .*train: train.*Pass split='(train|validation)'"):
            dataformats.open(tmp_path, format=format)
    n_train = N * sum("train" in name for name in names)
    assert len(dataformats.open(tmp_path / "train*")) == len(dataformats.open(tmp_path, split="train")) == n_train
    assert len(dataformats.open(tmp_path / "*.parquet")) == N * len(names)


def test_row_groups_of_one_value_are_bounded(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, n = tmp_path / "x.parquet", 100_000
    for values in (np.zeros(n), ["x" * 100] * n):
        parquet.write_table(arrow.table({"x": values}), path)
        with pytest.raises(
            FormatError, match=r"row group 0 is longer than a share of max_record_bytes.*trust the data"
        ):
            dataformats.open(path, max_record_bytes=1000)[5]
        assert dataformats.open(path, max_record_bytes=8 * 100 * n)[5] == {"x": values[5]}
    parquet.write_table(arrow.table({"x": np.arange(n)}), path)
    assert dataformats.open(path, max_record_bytes=1000)[5] == {"x": 5}
    parquet.write_table(arrow.table({"x": np.zeros(n), "xy": np.zeros(n)}), path)
    assert dataformats.open(path, max_record_bytes=8 * 8 * n).read([5], fields=["x"])["x"].tolist() == [0.0]


def one_image(arrow: Any, n: int) -> tuple[Any, bytes]:
    """Return a column of files as Hugging Face stores them, with one image in each row, and its bytes."""
    image = np.random.default_rng(0).bytes(10_000)
    rows = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(n, np.int32)), arrow.array([image]))
    return arrow.StructArray.from_arrays([rows, arrow.nulls(n, arrow.string())], ["bytes", "path"]), image


def test_row_groups_of_one_image_are_bounded(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column, image = one_image(arrow, 1000)
    kind = arrow.struct({"bytes": arrow.binary(), "path": arrow.string()})
    texts = arrow.array([[{"a": "x" * 10_000}]] * 1000)
    for values, first in ((column.cast(kind), image), (texts, [{"a": "x" * 10_000}])):
        parquet.write_table(arrow.table({"x": values, "n": np.arange(1000)}), tmp_path / "x.parquet")
        source = dataformats.open(tmp_path / "x.parquet", max_record_bytes=2**21)
        assert source.read([3], fields=["n"])["n"].tolist() == [3]
        with pytest.raises(FormatError, match="row group 0 is longer than a share of max_record_bytes"):
            source[3]
        assert dataformats.open(tmp_path / "x.parquet", max_record_bytes=2**27)[3] == {"x": first, "n": 3}


@loop_over("name", ["x.parquet", "x.arrow"])
def test_lists_of_lists_of_text_are_refused(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    with pytest.raises(SpecError, match=r"lists of lists, utf8\[\]\[2\]\. Declare it as json"):
        dataformats.create(tmp_path / name, spec={"words": "utf8[][2]"})


@loop_over("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_without_dictionaries(encoding: str, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [f"https://example.com/{number}" for number in range(1000)]
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"x": texts}), path, use_dictionary=False, column_encoding={"x": encoding})
    assert [record["x"] for record in dataformats.open(path, max_record_bytes=2**20)] == texts


@loop_over("is_stream", [False, True])
def test_dictionaries_within_structs(is_stream: bool, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    column, image = one_image(arrow, 3)
    table = arrow.table({"x": column})
    (write_ipc_stream if is_stream else write_ipc)(tmp_path / "x.arrow", table)
    assert list(dataformats.open(tmp_path / "x.arrow")) == [{"x": image}] * 3


@loop_over("is_stream", [False, True])
def test_batches_of_one_value_are_bounded(is_stream: bool, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path, n, zstd = tmp_path / "x.arrow", 100_000, arrow.ipc.IpcWriteOptions(compression="zstd")
    codes = arrow.array(np.zeros(n, np.int32))
    for column, n_bytes, first in (
        (arrow.array(np.zeros(n)), 8 * n, 0.0),
        (arrow.array(["x" * n, "y"]), n, "x" * n),
        (arrow.DictionaryArray.from_arrays(codes, ["x" * 9]), 9 * n, "x" * 9),
        (one_image(arrow, 1000)[0], 10**7, one_image(arrow, 1)[1]),
        (arrow.RunEndEncodedArray.from_arrays(arrow.array([n], arrow.int32()), ["x" * 9]), 18 * n, "x" * 9),
        (arrow.RunEndEncodedArray.from_arrays(arrow.array([n], arrow.int32()), [7]), 9 * n, 7),
    ):
        table = arrow.table({"x": column})
        new = arrow.ipc.new_stream if is_stream else arrow.ipc.new_file
        with arrow.OSFile(str(path), "wb") as out, new(out, table.schema, options=zstd) as writer:
            writer.write_table(table)
        with pytest.raises(FormatError, match=r" is longer than a share of max_record_bytes.*trust the data"):
            dataformats.open(path, max_record_bytes=1000)[0]
        assert dataformats.open(path, max_record_bytes=16 * n_bytes)[0] == {"x": first}
    write_ipc_stream(path, arrow.table({"x": arrow.nulls(n), "n": np.arange(n)}))
    assert dataformats.open(path, max_record_bytes=1000).read([5], fields=["n"])["n"].tolist() == [5]
    write_ipc_stream(path, arrow.table({"x": arrow.nulls(10**9)}))
    with pytest.raises(FormatError, match="longer than a share"):
        dataformats.open(path)[5]


def test_damaged_headers_of_arrow_are_no_empty_batches(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    stream, path = tmp_path / "x.arrows", tmp_path / "x.arrow"
    rows = arrow.table({"x": [1, 2]})
    with arrow.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    with arrow.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows)
    for file in (stream, path):
        whole = file.read_bytes()
        begin = whole.index(b"\xff\xff\xff\xff", 24)  # of the record batch
        for damaged in (whole[: begin + 7], whole[:begin] + whole[begin : begin + 8] + b"\x04" + whole[begin + 9 :]):
            file.write_bytes(damaged)
            with pytest.raises(FormatError):
                dataformats.open(file, format="arrow")


def test_messages_of_arrow_are_not_read_many_times(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "x.arrow"
    with arrow.ipc.new_file(path, arrow.schema([("x", arrow.int64())])) as writer:
        writer.write_table(arrow.table({"x": range(1000)}))
        writer.write_table(arrow.table({"x": [1]}))
    whole = path.read_bytes()
    block = whole.rindex(whole.index(b"\xff\xff\xff\xff", 24).to_bytes(8, "little"))
    path.write_bytes(whole[: block + 24] + whole[block : block + 24] + whole[block + 48 :])
    with pytest.raises(FormatError, match="no message of its own"):
        dataformats.open(path)
