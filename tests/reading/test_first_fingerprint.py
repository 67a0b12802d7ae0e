"""The fingerprint of the first records equals the fingerprint that the data had before they grew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dataformats
from dataformats import concat
from dataformats.reading.views import stored_length
from dataformats.testing.loop_over import loop_over

SPEC = {"id": "int64", "text": "bytes"}
FORMATS = ["tfrecord", "ofrecord", "ffrecord", "syrah", "granular", "jsonl", "mds", "parquet", "arrow", "webdataset"]
GROWN = {"x.tfrecord": "tfrecord", "x.ofrecord": "ofrecord", "x": "granular"}


def record(number: int) -> dict[str, Any]:
    return {"id": number, "text": b"t" * (number % 9 + 1)}


def write(path: Path, format: str, numbers: range, **options: Any) -> None:
    spec = {"id": "int64", "text": "utf8"} if format in ("jsonl", "csv", "parquet", "arrow") else SPEC
    with dataformats.create(path, format, spec=spec, **options) as writer:
        for number in numbers:
            value = record(number)
            writer.append(value | {"text": value["text"].decode()} if spec["text"] == "utf8" else value)


@loop_over("format", FORMATS)
def test_shards(format: str, tmp_path: Path) -> None:
    write(tmp_path / "x", format, range(30), shard_records=10)
    before = dataformats.open(tmp_path / "x").fingerprint
    write(tmp_path / "x", format, range(30, 45), shard_records=10, append=True)
    grown = dataformats.open(tmp_path / "x")
    assert len(grown) == 45
    assert grown.fingerprint_of_first(30) == before != grown.fingerprint
    assert grown.fingerprint_of_first(45) == grown.fingerprint
    assert grown.fingerprint_of_first(20) not in (before, grown.fingerprint)
    assert dataformats.open(tmp_path / "x").fingerprint == grown.fingerprint


@loop_over("name", GROWN)
def test_growing_files(name: str, tmp_path: Path) -> None:
    path, prints = tmp_path / name, {}
    for begin, end in ((0, 70), (70, 71), (71, 200)):
        write(path, GROWN[name], range(begin, end), append=True)
        prints[end] = dataformats.open(path).fingerprint
    grown = dataformats.open(path)
    assert len(set(prints.values())) == 3
    assert {n: grown.fingerprint_of_first(n) for n in prints} == prints
    assert [value["id"] for value in grown] == [*range(200)]


def test_growing_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"a": 22}\n')
    before = dataformats.open(path).fingerprint
    with path.open("a") as file:
        file.write('{"a": 333}\n')
    assert dataformats.open(path).fingerprint_of_first(2) == before


def test_views(tmp_path: Path) -> None:
    def views() -> list[Any]:
        source = dataformats.open(tmp_path / "x.tfrecord")
        other = dataformats.open(tmp_path / "y.tfrecord").select("text")
        return [
            source.select("id"),
            source[5:],
            source[::3],
            source[1::2],
            source.where(lambda value: value["id"] % 7 == 3).map(lambda value: value["id"]),
            concat([fixed, source]),
            dataformats.zip({"a": source.select("id"), "b": other}),
        ]

    for name in ("x", "y", "z"):
        write(tmp_path / f"{name}.tfrecord", "tfrecord", range(41))
    fixed = dataformats.open(tmp_path / "z.tfrecord")
    before = [(view.fingerprint, len(view), stored_length(view)) for view in views()]
    for name in ("x", "y"):
        write(tmp_path / f"{name}.tfrecord", "tfrecord", range(41, 90), append=True)
    for view, (expected, *lengths) in zip(views(), before, strict=True):
        assert view.fingerprint_of_first(*lengths) == expected != view.fingerprint


def test_other_data_have_another_fingerprint(tmp_path: Path) -> None:
    """Records that changed, shards that sort before the old ones, and formats with a table of all records."""
    write(tmp_path / "x", "tfrecord", range(30), shard_records=10)
    before = dataformats.open(tmp_path / "x").fingerprint
    files = sorted((tmp_path / "x").glob("*.tfrecord"))
    shutil.copy(files[-1], tmp_path / "x" / "a.tfrecord")
    (tmp_path / "x.dataformats.json").unlink()
    grown = dataformats.open(tmp_path / "x", payload="example", spec=SPEC)
    assert len(grown) == 40
    assert grown.fingerprint_of_first(30) != before
    write(tmp_path / "x.ffr", "ffrecord", range(30))
    assert dataformats.open(tmp_path / "x.ffr").fingerprint_of_first(20) is None
