"""Repairs of formats without a search of their own: what their readers read is saved, the rest is a loss."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import SpecError
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

N = 40
# Name of a file, and the options to write it.
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "jsonl": ("x.jsonl", {"spec": {"n": "int64", "data": "utf8"}}),
    "text": ("x.txt", {"payload": "utf8"}),
    "webdataset": ("x.tar", {"spec": {"n": "int64", "data": "bytes"}}),
    "array_record": ("x.array_record", {"payload": "bytes", "group_size": 4}),
    "mds": ("x", {"spec": {"n": "int64", "data": "bytes"}, "format": "mds"}),
    "megatron": ("x.bin", {"spec": {"tokens": "int32[]"}, "format": "megatron"}),
}


def record(kind: str, number: int) -> Any:
    text = "".join(np.random.default_rng(number).choice(list("abcdefgh"), 30).tolist())
    if kind in ("text", "array_record"):
        return text if kind == "text" else text.encode()
    if kind == "megatron":
        return {"tokens": np.arange(number, number + 9, dtype=np.int32)}
    return {"n": number, "data": text if kind == "jsonl" else text.encode()}


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    return bool(one == other)


def written(kind: str, folder: Path) -> Path:
    name, options = FORMATS[kind]
    pytest.importorskip({"array_record": "array_record"}.get(kind, "numpy"), reason="the library is not installed")
    with dataformats.create(folder / name, **options) as writer:
        writer.extend(record(kind, number) for number in range(N))
    return folder / name


def data_file(kind: str, path: Path) -> Path:
    return path / "shard.00000.mds" if kind == "mds" else path


@loop_over("kind", FORMATS)
def test_sound_files_are_copied(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    report = dataformats.repair(path, tmp_path / f"new{path.suffix}", source_options={"format": kind})
    assert (report.ok, report.kept, report.losses) == (True, N, ())
    source = dataformats.open(report.path, format=kind, payload=report.payload)
    assert all(is_same(one, record(kind, number)) for number, one in enumerate(source))


@loop_over("kind", ["jsonl", "webdataset", "mds", "megatron"])
def test_cut_files_keep_the_records_before_the_cut(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    file = data_file(kind, path)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    report = dataformats.repair(path, tmp_path / f"new{path.suffix}", source_options={"format": kind})
    assert N // 2 < report.kept < N
    assert not report.ok
    assert all(loss.index == report.kept for loss in report.losses[:1])
    found = list(dataformats.open(report.path, format=kind, payload=report.payload))
    assert all(is_same(one, record(kind, number)) for number, one in enumerate(found))


def test_records_around_damage_are_kept(tmp_path: Path) -> None:
    path = written("jsonl", tmp_path)
    lines = path.read_bytes().split(b"\n")
    lines[7] = lines[7][:-4]
    lines[9] = b"\xff"
    path.write_bytes(b"\n".join(lines))
    report = dataformats.repair(path, tmp_path / "new.jsonl")
    assert (report.kept, [loss.index for loss in report.losses]) == (N - 2, [7, 9])
    numbers = [one["n"] for one in dataformats.open(report.path)]
    assert numbers == [number for number in range(N) if number not in (7, 9)]


def test_compressed_files_without_their_end(tmp_path: Path) -> None:
    path = written("jsonl", tmp_path)
    packed = gzip.compress(path.read_bytes())
    (tmp_path / "y.jsonl.gz").write_bytes(packed[: len(packed) - 200])
    report = dataformats.repair(tmp_path / "y.jsonl.gz", tmp_path / "new.jsonl.gz")
    assert 0 < report.kept < N
    assert not report.ok
    assert [one["n"] for one in dataformats.open(report.path)] == list(range(report.kept))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (GOLDEN / "recordio" / "several.rec", "records of recordio cannot be copied"),
        (GOLDEN / "npy" / "vectors.npy", "records of npy cannot be copied"),
    ],
)
def test_read_only_formats_are_refused(path: Path, said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=rf"{said}.* with convert and on_corrupt='omit'"):
        dataformats.repair(path, tmp_path / "new")


def test_tables_have_no_records_to_copy(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    with dataformats.create(tmp_path / "x.parquet", spec={"a": "int64"}) as writer:
        writer.append({"a": 1})
    with pytest.raises(SpecError, match=r"records of parquet cannot be copied .* on_corrupt='omit'"):
        dataformats.repair(tmp_path / "x.parquet", tmp_path / "y.parquet")


def test_hostile_counts_in_names(tmp_path: Path) -> None:
    count = "9" * 40
    (tmp_path / "in").mkdir()
    for number in (0, 2):
        (tmp_path / "in" / f"x-{number:05d}-of-{count}.jsonl").write_text('{"a": 1}\n')
    report = dataformats.repair(tmp_path / "in", tmp_path / "out")
    assert report.kept == 2
    assert len(report.missing_files) == 100_000
    assert report.missing_files[0].endswith(f"{1:040d}-of-{count}.jsonl")
