"""Arrow types that are read as text, numbers or documents survive a conversion between tables."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import dataformats
from dataformats.testing.loop_over import loop_over

NUMBERS = [None, 0, 1, 59, 86_399, 1_234_567]
DAY = datetime.date(2024, 2, 29)
ZONE = pyarrow.timestamp("us", "America/New_York")
ARRAYS = {
    "decimal": pyarrow.array([None, *map(decimal.Decimal, ("-1.10", "0.00", "123456.78"))], pyarrow.decimal128(10, 2)),
    "large decimal": pyarrow.array([decimal.Decimal(10**49), None], pyarrow.decimal256(50, 0)),
    "dictionary": pyarrow.array(["a", None, "b", "a"]).dictionary_encode(),
    "date": pyarrow.array([-719_162, None, 0, 2_932_896], pyarrow.int32()).cast(pyarrow.date32()),
    "time": pyarrow.array([None, 0, 86_399_999_999_999], pyarrow.int64()).cast(pyarrow.time64("ns")),
    "short time": pyarrow.array([86_399, None], pyarrow.int32()).cast(pyarrow.time32("s")),
    "duration": pyarrow.array([-(2**62), None, 5], pyarrow.int64()).cast(pyarrow.duration("us")),
    "nanoseconds": pyarrow.array([-(2**63) + 10**9, None, 2**63 - 1], pyarrow.int64()).cast(pyarrow.timestamp("ns")),
    "UTC": pyarrow.array([-62_135_596_800_000, None], pyarrow.int64()).cast(pyarrow.timestamp("ms", "UTC")),
    "struct": pyarrow.array(
        [{"day": DAY, "x": [1.5, None], "k": "a"}, None, {"day": None, "x": [], "k": None}],
        pyarrow.struct(
            {"day": pyarrow.date32(), "x": pyarrow.list_(pyarrow.float32()), "k": pyarrow.dictionary("int8", "string")}
        ),
    ),
    "bytes in a struct": pyarrow.array(
        [{"x": b"12", "t": None}, None], pyarrow.struct({"x": "binary", "t": "time64[us]"})
    ),
    "list": pyarrow.array([[datetime.time(1, 2, 3)], [], None], pyarrow.list_(pyarrow.time64("us"))),
    "zones": pyarrow.array([[10**15], [17 * 10**14, 0]], pyarrow.large_list(ZONE)),
    "map": pyarrow.array([[("a", [(1, DAY)])], [], None], pyarrow.map_("string", pyarrow.map_("int8", "date32"))),
    "nested": pyarrow.array(
        [[{"a": [{"b": DAY}]}, None], None, []],
        pyarrow.list_(pyarrow.struct({"a": pyarrow.large_list(pyarrow.struct({"b": pyarrow.date32()}))})),
    ),
    "fixed": pyarrow.array([[DAY, None], [None, None]], pyarrow.list_(pyarrow.date32(), 2)),
    "zone": pyarrow.array([10**15, None, 17 * 10**14], pyarrow.int64()).cast(ZONE),
}


def read(path: Path) -> Any:
    if path.suffix == ".arrow":
        with pyarrow.memory_map(str(path)) as file:
            return pyarrow.ipc.open_file(file).read_all()
    return parquet.read_table(path)


@loop_over("suffix", [".parquet", ".arrow"])
def test_types_and_values_stay(suffix: str, tmp_path: Path) -> None:
    n = max(map(len, ARRAYS.values()))
    whole = {name: pyarrow.concat_arrays([a, pyarrow.nulls(n - len(a), a.type)]) for name, a in ARRAYS.items()}
    parquet.write_table(pyarrow.table(whole), tmp_path / "a.parquet")
    dataformats.convert(tmp_path / "a.parquet", tmp_path / f"b{suffix}", rename={"date": "day"})
    expected, found = parquet.read_table(tmp_path / "a.parquet"), read(tmp_path / f"b{suffix}")
    assert found.column_names == ["day" if name == "date" else name for name in ARRAYS]
    for name, before, after in zip(ARRAYS, expected.columns, found.columns, strict=True):
        if name == "struct" or (name == "dictionary" and suffix == ".arrow"):  # Arrow IPC has one dictionary a file
            assert not pyarrow.types.is_dictionary(after.type)
            before = pyarrow.chunked_array([pyarrow.array(before.to_pylist(), after.type)])
        assert after.combine_chunks().equals(before.combine_chunks()), name
    dataformats.convert(tmp_path / f"b{suffix}", tmp_path / "c.parquet", where=lambda record: "day" in record)
    assert [field.type for field in read(tmp_path / "c.parquet").schema] == [column.type for column in found.columns]


@loop_over("suffix", [".parquet", ".arrow"])
def test_media_have_features_of_hugging_face(suffix: str, tmp_path: Path) -> None:
    """The features stay, with their arguments; new media get theirs."""
    files = pyarrow.array([{"bytes": b"1", "path": None}, None], pyarrow.struct({"bytes": "binary", "path": "string"}))
    features: dict[str, Any] = {
        "image": {"mode": "RGB", "_type": "Image"},
        "sound": {"_type": "Audio"},
        "plain": {"_type": "Audio"},
    }
    features["images"] = {"feature": {"mode": "L", "_type": "Image"}, "length": -1, "_type": "Sequence"}
    lists = pyarrow.array([[{"bytes": b"1", "path": None}] * 2, []], pyarrow.list_(files.type))
    table = pyarrow.table({"image": files, "sound": files, "plain": ["a", "b"], "images": lists})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    dataformats.convert(tmp_path / "a.parquet", tmp_path / f"b{suffix}", spec={"plain": "utf8"})
    found = read(tmp_path / f"b{suffix}")
    media = ["image", "sound", "images"]
    assert [found[name].to_pylist() for name in media] == [table[name].to_pylist() for name in media]
    del features["plain"]
    assert json.loads(found.schema.metadata[b"huggingface"])["info"]["features"] == features
    jpg, png = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
    binary = dataformats.Type("jpg", arrow_type=pyarrow.binary())
    with dataformats.create(
        tmp_path / f"c{suffix}", spec={"i": "jpg", "a": "audio?", "v": "mp4?", "x": binary, "s": "png[]"}
    ) as new:
        new.append({"i": jpg, "x": jpg, "s": [png, png]})
        new.append({"i": jpg, "x": jpg, "s": []})
    found = read(tmp_path / f"c{suffix}")
    kinds: dict[str, Any] = {"i": {"_type": "Image"}, "a": {"_type": "Audio"}, "v": {"_type": "Video"}}
    kinds["s"] = {"feature": {"_type": "Image"}, "length": -1, "_type": "Sequence"}
    assert json.loads(found.schema.metadata[b"huggingface"])["info"]["features"] == kinds
    assert found["i"].to_pylist() == [{"bytes": jpg, "path": None}] * 2
    assert found["s"].to_pylist() == [[{"bytes": png, "path": None}] * 2, []]
    assert found["x"].to_pylist() == [jpg] * 2
    (tmp_path / f"c{suffix}.dataformats.json").unlink()
    spec = {"i": "bytes", "a": "bytes?", "v": "bytes?", "x": "bytes"}
    spec["s"] = "bytes[]?" if suffix == ".parquet" else "bytes[]"  # statistics do not tell null from empty lists
    assert dataformats.open(tmp_path / f"c{suffix}").spec == spec


def test_types_of_the_call_and_of_several_files(tmp_path: Path) -> None:
    days = pyarrow.table({"t": ARRAYS["date"], "u": ARRAYS["date"]})
    for name in ("a", "b"):
        parquet.write_table(days, tmp_path / f"{name}.parquet")
    both = dataformats.concat([dataformats.open(tmp_path / f"{name}.parquet") for name in ("a", "b")])
    dataformats.convert(both, tmp_path / "x", "parquet", spec={"u": "utf8?"}, shard_records=3, workers=2)
    found = parquet.read_table(tmp_path / "x")
    assert found.schema.field("t").type == pyarrow.date32()
    assert found.schema.field("u").type == pyarrow.large_string()
    assert len(found) == 8
    dataformats.convert(tmp_path / "a.parquet", tmp_path / "y.jsonl")
    assert dataformats.open(tmp_path / "y.jsonl")[0] == {"t": "0001-01-01", "u": "0001-01-01"}


def test_types_for_text_and_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t": "2024-05-06 07:08:09", "n": 3}\n')
    spec: dict[str, Any] = {
        "t": dataformats.Type("utf8", arrow_type=pyarrow.timestamp("s")),
        "n": dataformats.Type("int64", arrow_type=pyarrow.duration("s")),
    }
    # Read back, the time has digits behind its seconds.
    dataformats.convert(tmp_path / "a.jsonl", tmp_path / "a.parquet", spec=spec, verify=False)
    assert str(parquet.read_table(tmp_path / "a.parquet").schema.field("t").type) == "timestamp[ms]"
    wrong: dict[str, Any] = {"t": dataformats.Type("utf8", arrow_type="date")}
    with pytest.raises(TypeError, match=r"field 't': arrow_type: expected a pyarrow\.DataType, found 'date'"):
        dataformats.create(tmp_path / "b.parquet", spec=wrong)
    spec = {"t": dataformats.Type("utf8", arrow_type=pyarrow.date32())}
    with dataformats.create(tmp_path / "c.arrow", spec=spec) as writer:
        writer.append({"t": "2024-02-30"})
        with pytest.raises(dataformats.SpecError, match="field 't': a value does not fit the Arrow type date32"):
            writer.close()


def test_misfit_documents_are_refused(tmp_path: Path) -> None:
    kind = dataformats.Type("json", arrow_type=pyarrow.struct({"day": pyarrow.date32()}))
    for wrong in ([1], {"day": 3}, {"night": None}, "x"):
        with dataformats.create(tmp_path / "a.parquet", spec={"d": kind}) as writer:
            writer.append({"d": wrong})
            with pytest.raises(
                dataformats.SpecError, match=r"does not fit the Arrow type struct<day.*spec=\{'d': 'json'\}"
            ):
                writer.close()


def test_joined_sources_keep_types(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"t": ARRAYS["date"]}), tmp_path / "a.parquet")
    source = dataformats.open(tmp_path / "a.parquet")
    dataformats.convert(dataformats.zip([source, source], rename={"0.t": "a", "1.t": "b"}), tmp_path / "b.parquet")
    assert {str(field.type) for field in parquet.read_schema(tmp_path / "b.parquet")} == {"date32[day]"}


def test_offsets_with_seconds_are_refused(tmp_path: Path) -> None:
    """The text of New York's offset before 1883, -4:56:02, has no seconds."""
    early = pyarrow.array([-(10**10)], pyarrow.int64()).cast(pyarrow.timestamp("s", "America/New_York"))
    parquet.write_table(pyarrow.table({"t": early}), tmp_path / "a.parquet")
    with pytest.raises(dataformats.SpecError, match=r"the offset of the time zone has seconds.*pass spec=\{'t'"):
        dataformats.convert(tmp_path / "a.parquet", tmp_path / "b.parquet")
    dataformats.convert(tmp_path / "a.parquet", tmp_path / "b.parquet", spec={"t": "utf8"})
