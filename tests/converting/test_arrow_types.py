"""Arrow types that are read as text or numbers survive a conversion between tables."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import dataformats
from dataformats.testing.loop_over import loop_over

NUMBERS = [None, 0, 1, 59, 86_399, 1_234_567]
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
    "zone": pyarrow.array([10**15, None, 17 * 10**14], pyarrow.int64()).cast(ZONE),
}


def read(path: Path) -> Any:
    if path.suffix == ".arrow":
        with pyarrow.memory_map(str(path)) as file:
            return pyarrow.ipc.open_file(file).read_all()
    return parquet.read_table(path)


@loop_over("name", ARRAYS)
@loop_over("suffix", [".parquet", ".arrow"])
def test_types_and_values_stay(name: str, suffix: str, tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"x": ARRAYS[name]}), tmp_path / "a.parquet")
    expected = parquet.read_table(tmp_path / "a.parquet").column("x")
    dataformats.convert(tmp_path / "a.parquet", tmp_path / f"b{suffix}", rename={"x": "y"})
    found = read(tmp_path / f"b{suffix}").column("y")
    if name == "dictionary" and suffix == ".arrow":  # a file of Arrow IPC has one dictionary
        expected = expected.cast(found.type)
    assert found.equals(expected)
    dataformats.convert(tmp_path / f"b{suffix}", tmp_path / "c.parquet", where=lambda record: "y" in record)
    assert read(tmp_path / "c.parquet").column("y").type == found.type


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
    kinds: dict[str, Any] = {"t": pyarrow.timestamp("s"), "n": pyarrow.duration("s")}
    # Read back, the time has digits behind its seconds.
    dataformats.convert(tmp_path / "a.jsonl", tmp_path / "a.parquet", arrow_types=kinds, verify=False)
    assert str(parquet.read_table(tmp_path / "a.parquet").schema.field("t").type) == "timestamp[ms]"
    with pytest.raises(dataformats.SpecError, match="field 'n': arrow_types= names no field"):
        dataformats.create(tmp_path / "b.parquet", spec={"t": "utf8"}, arrow_types=kinds)
    with pytest.raises(TypeError, match=r"expected a pyarrow\.DataType, found 'date'"):
        dataformats.create(tmp_path / "b.parquet", spec={"t": "utf8"}, arrow_types={"t": "date"})
    with dataformats.create(tmp_path / "c.arrow", spec={"t": "utf8"}, arrow_types={"t": pyarrow.date32()}) as writer:
        writer.append({"t": "2024-02-30"})
        with pytest.raises(dataformats.SpecError, match="field 't': a value does not fit the Arrow type date32"):
            writer.close()


def test_offsets_with_seconds_are_refused(tmp_path: Path) -> None:
    """The text of New York's offset before 1883, -4:56:02, has no seconds."""
    early = pyarrow.array([-(10**10)], pyarrow.int64()).cast(pyarrow.timestamp("s", "America/New_York"))
    parquet.write_table(pyarrow.table({"t": early}), tmp_path / "a.parquet")
    with pytest.raises(dataformats.SpecError, match=r"the offset of the time zone has seconds.*pass spec=\{'t'"):
        dataformats.convert(tmp_path / "a.parquet", tmp_path / "b.parquet")
    dataformats.convert(tmp_path / "a.parquet", tmp_path / "b.parquet", spec={"t": "utf8"})
