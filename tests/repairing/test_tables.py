"""Repaired FFRecord, Syrah and Granular data, whose tables locate the records."""

from __future__ import annotations

import json
import pickle
import shutil
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden"


def entry(format: str, name: str) -> dict[str, Any]:
    entries = json.loads((GOLDEN / format / "expected.json").read_text("utf-8"))["entries"]
    return next(entry for entry in entries if entry["id"] == name)


def base_of(format: str) -> dataformats.RecordSource:
    suffix = {"ffrecord": "ffr", "syrah": "syr"}[format]
    return dataformats.open(GOLDEN / format / f"base.{suffix}")


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    return bool(one == other)


# ---- FFRecord and Syrah

TABLES = {
    "ffrecord/data_bit.ffr": [2],
    "ffrecord/empty_record_bad_crc.ffr": [1],
    "ffrecord/meta_bit_checksums.ffr": [3],
    "ffrecord/n_2pow60.ffr": [],
    "ffrecord/n_negative.ffr": [],
    "ffrecord/offset_past_eof.ffr": [3, 4],
    "ffrecord/offsets_decreasing.ffr": [1, 2, 3],
    "ffrecord/trailing_garbage.ffr": [5],
    "ffrecord/truncated_last.ffr": [5],
    "ffrecord/truncated_middle.ffr": [2, 3, 4, 5],
    "syrah/bad_magic.syr": [],
    "syrah/metadata_length_0.syr": [],
    "syrah/offset_past_eof.syr": [],
    "syrah/size_into_metadata.syr": [5],
    "syrah/size_odd.syr": [0],
    "syrah/size_past_eof.syr": [5],
}


@loop_over("name", TABLES)
def test_golden(name: str, tmp_path: Path) -> None:
    format, _, file = name.partition("/")
    report = dataformats.repair(GOLDEN / format / "corrupt" / file, tmp_path / file)
    lost = [n for loss in report.losses for n in range(loss.index or 0, (loss.index or 0) + (loss.records or 0))]
    assert (lost, report.lost, report.ok) == (TABLES[name], len(TABLES[name]), not TABLES[name])
    assert report.ok <= bool(report.notes)  # a header was damaged
    kept, base = dataformats.open(tmp_path / file), base_of(format)
    expected = [base[number] for number in range(6) if number not in lost]
    assert len(kept) == len(expected)
    assert all(map(same, kept, expected))


@loop_over(
    "name",
    [
        "ffrecord/corrupt/empty_file.ffr",
        "ffrecord/corrupt/truncated_header.ffr",
        "ffrecord/corrupt/unfinished.ffr",
        "syrah/corrupt/bson_garbage.syr",
        "syrah/corrupt/fewer_sizes.syr",
        "syrah/corrupt/killed_writer.syr",
        "syrah/corrupt/layout_0_1_1.syr",
        "syrah/corrupt/metadata_cut.syr",
        "syrah/corrupt/metadata_missing.syr",
        "syrah/corrupt/unknown_dtype.syr",
        "granular/v2/corrupt/refs_missing",
        "granular/v2/corrupt/table_cut.bag",
        "granular/v3/corrupt/column_missing",
        "granular/v3/corrupt/idx_missing",
        "granular/v3/corrupt/spec_not_json",
    ],
)
def test_nothing_locates_the_records(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError) as raised:
        dataformats.repair(GOLDEN / name, tmp_path / Path(name).name)
    assert str(raised.value.path).startswith(str(GOLDEN / name))
    assert list(tmp_path.iterdir()) == []


def test_ffrecord_header_damaged_in_several_places(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "ffrecord" / "base.ffr").read_bytes())
    data[4:12] = bytes(8)  # the number of records, which the first offset shows
    data[12 + 4 * 2] ^= 1  # a checksum
    (tmp_path / "x.ffr").write_bytes(data)
    report = dataformats.repair(tmp_path / "x.ffr", tmp_path / "y.ffr")
    assert [(loss.index, loss.records, loss.cause) for loss in report.losses] == [
        (2, 1, "the checksum of a record is wrong")
    ]
    assert "the header is damaged" in report.notes[0]


@pytest.mark.parametrize("known", [None, 6])
def test_unfinished_ffrecord_with_its_journal(known: int | None, tmp_path: Path) -> None:
    """The file comes from a killed writer; a record that the journal does not list is lost."""
    options: dict[str, Any] = {} if known is None else {"records": known}
    writer = dataformats.create(tmp_path / "x.ffr", **options)
    writer.extend(b"record %d" % number for number in range(5))
    writer.flush()
    left = tmp_path / "left"
    left.mkdir()
    for name in ("x.ffr.partial", "x.ffr.partial.journal"):
        shutil.copy(tmp_path / name, left / name)
    writer.abort()
    data = bytearray((left / "x.ffr.partial").read_bytes())
    first = len(data) - 5 * 8
    data[first + 8 + 2] ^= 1
    (left / "x.ffr.partial").write_bytes(data + b"torn")
    report = dataformats.repair(left / "x.ffr.partial", tmp_path / "x.ffr")
    assert list(dataformats.open(tmp_path / "x.ffr")) == [b"record 0", b"record 2", b"record 3", b"record 4"]
    assert [(loss.index, loss.records, loss.start, loss.stop) for loss in report.losses] == [
        (1, 1, first + 8, first + 16),
        (5, None, len(data), len(data) + 4),
    ]
    assert "journal" in report.notes[0]


def test_pickles_without_a_header(tmp_path: Path) -> None:
    pickles = [pickle.dumps({"number": number, "data": bytes(number * 50)}, protocol=4) for number in range(5)]
    cut = pickle.dumps([1] * 100, protocol=5)[:-1]
    (tmp_path / "x.ffr").write_bytes(bytes(12 + 12 * 6) + b"".join(pickles) + cut)
    report = dataformats.repair(tmp_path / "x.ffr", tmp_path / "y.ffr")
    assert dataformats.open(tmp_path / "y.ffr", payload="bytes").read_bytes(range(5)) == pickles
    end = 84 + sum(map(len, pickles))
    assert [(loss.start, loss.stop, loss.records) for loss in report.losses] == [(end, end + len(cut), None)]
    assert "no checksum proves them" in report.notes[0]


def test_unfinished_syrah_with_its_journal(tmp_path: Path) -> None:
    writer = dataformats.create(tmp_path / "x.syr", spec={"n": "int64[3]", "name": "utf8"})
    writer.extend({"n": [number] * 3, "name": "é" * number} for number in range(4))
    writer.flush()
    left = tmp_path / "left"
    left.mkdir()
    for path in tmp_path.glob("x.syr.partial*"):
        shutil.copy(path, left)
    writer.abort()
    report = dataformats.repair(left / "x.syr.partial", tmp_path / "x.syr")
    assert (report.kept, report.ok) == (4, True)
    kept = dataformats.open(tmp_path / "x.syr")
    assert kept.spec == {"n": "int64[3]", "name": "utf8"}
    assert [record["name"] for record in kept] == ["", "é", "éé", "ééé"]


def test_bytes_behind_syrah_metadata(tmp_path: Path) -> None:
    data = (GOLDEN / "syrah" / "base.syr").read_bytes()
    (tmp_path / "x.syr").write_bytes(data + b"more")
    report = dataformats.repair(tmp_path / "x.syr", tmp_path / "y.syr")
    assert [(loss.start, loss.stop, loss.records) for loss in report.losses] == [(len(data), len(data) + 4, None)]
    assert report.kept == 6


@loop_over("table", ["offset", "size"])
@loop_over("item", [0, 2, 5])
def test_wrong_table_entry_loses_only_its_record(table: str, item: int, tmp_path: Path) -> None:
    """The array would be read, with the bytes of others."""
    data = bytearray((GOLDEN / "syrah" / "base.syr").read_bytes())
    x = data.index(b"\x03x\0")
    place = data.index(b"\x05" + table.encode() + b"\0", x) + len(table) + 7 + 8 * item
    data[place] ^= 16 if table == "offset" else 8
    (tmp_path / "x.syr").write_bytes(data)
    report = dataformats.repair(tmp_path / "x.syr", tmp_path / "y.syr")
    assert [(loss.index, loss.records) for loss in report.losses] == [(item, 1)]
    kept, base = dataformats.open(tmp_path / "y.syr"), base_of("syrah")
    assert all(map(same, kept, [base[number] for number in range(6) if number != item]))


# ---- Granular

SETS = [
    f"{version}/{name}"
    for version in ("bags", "v1", "v2")
    for name in ("refs_out_of_range", "refs_not_msgpack", "column_short")
]
SETS += [f"v3/{name}" for name in ("offsets_decreasing", "column_length_mismatch", "empty_bag", "truncated_bag")]
SETS += ["v3/idx_not_multiple_of_8", "v3/interrupted_column_ahead"]


@loop_over("name", SETS)
def test_golden_granular(name: str, tmp_path: Path) -> None:
    expected = entry("granular", name)
    report = dataformats.repair(GOLDEN / "granular" / expected["path"], tmp_path / "repaired")
    lost = [n for loss in report.losses for n in range(loss.index or 0, (loss.index or 0) + (loss.records or 0))]
    n = expected["n_before_damage"]
    assert lost == [number for number in range(n) if number not in expected["readable"]]
    assert not report.ok
    base = GOLDEN / "granular" / name.partition("/")[0] / ("resume_complete" if n == 6 else "base")
    whole, kept = dataformats.open(base), dataformats.open(tmp_path / "repaired")
    assert kept.spec == whole.spec
    assert list(map(same, kept, whole.take(expected["readable"]))) == [True] * len(expected["readable"])
    assert dataformats.verify(tmp_path / "repaired").ok


def test_granular_bytes_behind_the_last_row(tmp_path: Path) -> None:
    report = dataformats.repair(GOLDEN / "granular" / "v3" / "interrupted" / "first_write", tmp_path / "x")
    assert (report.kept, report.lost) == (0, 0)
    assert {Path(loss.path).suffix for loss in report.losses} == {".bag"}
    assert all(loss.records is None and loss.start == 0 for loss in report.losses)


@loop_over("damage", ["missing", "cut"])
@loop_over("generation", [1, 2])
def test_refs_are_built_again_without_sequences(damage: str, generation: int, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "spec.json").write_text('{"a": "utf8", "b": "bytes"}')
    columns = {"a": [b"one", b"two", b"three"], "b": [b"1", b"2", b"3"]}
    for name, records in columns.items():
        limits = np.array([*([0] if generation == 1 else []), *accumulate(map(len, records))], "<u8").tobytes()
        (folder / f"{name}.bag").write_bytes(b"".join(records) + limits)
    if damage == "cut":
        (folder / "refs.bag").write_bytes(b"12345")
    report = dataformats.repair(folder, tmp_path / "new")
    assert (report.ok, "built again" in report.notes[0]) == (True, True)
    kept = list(dataformats.open(tmp_path / "new"))
    assert kept == [{"a": a.decode(), "b": b} for a, b in zip(columns["a"], columns["b"], strict=True)]
    shutil.copy(GOLDEN / "granular" / f"v{generation}" / "bag.bag", folder / "b.bag")  # a bag of five records
    with pytest.raises(FormatError):
        dataformats.repair(folder, tmp_path / "other")


def test_integers_of_generation_1_keep_their_values(tmp_path: Path) -> None:

    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "spec.json").write_text('{"i": "int"}')
    columns = {"i": [b"\xc8", b"", b"\x01\x80"], "refs": [msgpack.packb([number]) for number in range(3)]}
    for name, records in columns.items():
        limits = np.array([0, *accumulate(map(len, records))], "<u8").tobytes()
        (folder / f"{name}.bag").write_bytes(b"".join(records) + limits)
    assert dataformats.repair(folder, tmp_path / "new").ok
    old, new = dataformats.open(folder), dataformats.open(tmp_path / "new")
    assert [record["i"] for record in new] == [record["i"] for record in old] == [200, 0, 0x8001]
    assert dataformats.info(tmp_path / "new").metadata["generation"] == "3"


def test_single_bags(tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    with dataformats.create(path, "granular") as writer:
        writer.extend([b"one", b"two", b"three"])
    with path.open("ab") as bag, path.with_suffix(".idx").open("ab") as idx:
        bag.write(b"torn")
        idx.write(b"\x0f\0\0")
    report = dataformats.repair(path, tmp_path / "y.bag")
    assert list(dataformats.open(tmp_path / "y.bag")) == [b"one", b"two", b"three"]
    assert [(Path(loss.path).name, loss.start, loss.stop) for loss in report.losses] == [
        ("x.bag", 11, 15),
        ("x.idx", 24, 27),
    ]
