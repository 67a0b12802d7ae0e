"""Conversions that were interrupted: `resume=True` continues them, if their plan is the same."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
import dataformats.converting.converter
from dataformats.backends.framed.writer import FramedWriter
from dataformats.backends.granular.writer import GranularWriter
from dataformats.staging.local_area import LocalArea
from dataformats.testing.loop_over import loop_over
from dataformats.writing.appending_writer import AppendingWriter

SPEC = {"n": "int64", "image": "uint8[4,4]", "text": "utf8"}
FORMATS = ("tfrecord", "ofrecord", "ffrecord", "syrah", "granular")
SHARDS: tuple[dict[str, Any], ...] = ({}, {"shard_records": 9})
WAYS = [
    *((format, shards) for format in FORMATS for shards in SHARDS),
    ("ffrecord", {"shard_bytes": 1000}),
    ("tfrecord", {"compression": "gzip"}),
    ("tfrecord", {"compression": "zlib", "shard_bytes": 1000}),
]


def record(i: int) -> dict[str, Any]:
    return {"n": i, "image": np.full((4, 4), i % 256, np.uint8), "text": "é" * (i % 7)}


class Interruption:
    """A function of a record that raises at one of them, until `ends`. All of them have one qualified name."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, found: dict[str, Any]) -> dict[str, Any]:
        if found["n"] == self.at:
            raise RuntimeError("interrupted")
        return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dataformats.RecordSource:
    path = tmp_path_factory.mktemp("source") / "source.tfrecord"
    with dataformats.create(path, "tfrecord", spec=SPEC) as writer:
        writer.extend(map(record, range(60)))
    return dataformats.open(path)


def names(folder: Path) -> list[str]:
    """Return the names in a folder, without indexes, which only some formats have."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".idx"))


def tree(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def interrupt(source: dataformats.RecordSource, path: Path, at: int, **options: Any) -> None:
    with pytest.raises(RuntimeError, match="interrupted"):
        dataformats.convert(source, path, map=Interruption(at), **options)
    assert not path.exists()


@pytest.mark.parametrize(("format", "shards"), WAYS)
def test_resume_after_an_error_gives_the_same_bytes(
    source: dataformats.RecordSource, format: str, shards: dict[str, Any], tmp_path: Path
) -> None:
    path, options = tmp_path / "new", {"format": format, **shards}
    dataformats.convert(source, tmp_path / "whole", map=Interruption(-1), **options)
    chosen = random.Random(f"{format} {shards}")
    with ThreadPoolExecutor(2) as threads:
        executors: list[Executor | None] = [None, threads]
        interrupt(source, path, chosen.randrange(20, 40), **options)  # other threads might convert the rest meanwhile
        interrupt(source, path, chosen.randrange(40, 60), executor=chosen.choice(executors), resume=True, **options)
    report = dataformats.convert(source, path, map=Interruption(-1), resume=True, **options)
    assert (report.records, report.omitted) == (60, 0)
    assert report.resumed >= 35
    found = {name.replace("new", "whole"): data for name, data in tree(path).items()}
    assert found == tree(tmp_path / "whole")
    assert [name for name in names(tmp_path) if "new" in name] == ["new", "new.dataformats.json"]
    again = dataformats.convert(source, path, map=Interruption(-1), resume=True, **options)
    assert (again.records, again.files, again.nbytes) == (report.records, report.files, report.nbytes)


def test_compressed_bytes_do_not_depend_on_time(
    source: dataformats.RecordSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("fast", 1000.0), ("slow", -1.0)):
        monkeypatch.setattr(dataformats.converting.converter, "_CHECKPOINT_S", seconds)
        dataformats.convert(source, tmp_path / name, "tfrecord", compression="gzip", shuffle_seed=1)
    assert (tmp_path / "fast").read_bytes() == (tmp_path / "slow").read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_checkpoints_follow_synced_data(
    source: dataformats.RecordSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(dataformats.converting.converter, "_CHECKPOINT_S", -1.0)
    monkeypatch.setattr(dataformats.converting.converter, "_RANGE_RECORDS", 16)
    backend = {"tfrecord": FramedWriter, "ofrecord": FramedWriter, "granular": GranularWriter}
    spy(monkeypatch, steps, backend.get(format, AppendingWriter), "flush")
    spy(monkeypatch, steps, LocalArea, "write_entry")
    dataformats.convert(source, tmp_path / "new", format, shuffle_seed=1)
    at_checkpoints = "".join("e" if step.startswith("write_entry") else "f" if "True" in step else "" for step in steps)
    assert at_checkpoints.startswith("fefefe")
    assert "ee" not in at_checkpoints


def spy(monkeypatch: pytest.MonkeyPatch, steps: list[str], owner: type, name: str) -> None:
    """Note each call of a method."""
    step = getattr(owner, name)

    def spied(*args: Any, **options: Any) -> Any:
        steps.append(f"{name} {options}")
        return step(*args, **options)

    monkeypatch.setattr(owner, name, spied)


def test_complete_data_are_refused_without_resume(source: dataformats.RecordSource, tmp_path: Path) -> None:
    dataformats.convert(source, tmp_path / "new", "ffrecord")
    with pytest.raises(dataformats.TargetExistsError):
        dataformats.convert(source, tmp_path / "new", "ffrecord")
    assert dataformats.convert(source, tmp_path / "new", "ffrecord", resume=True).records == 60


@pytest.mark.parametrize("shards", SHARDS, ids=["one", "shards"])
def test_partial_data_stay_if_another_writer_publishes(
    source: dataformats.RecordSource, shards: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(*_: Any) -> None:
        raise dataformats.TargetInUseError("another writer is publishing")

    with monkeypatch.context() as patched:
        patched.setattr(LocalArea, "publish", publish)
        with pytest.raises(dataformats.TargetInUseError):
            dataformats.convert(source, tmp_path / "new", "ffrecord", **shards)
    assert dataformats.convert(source, tmp_path / "new", "ffrecord", resume=True, **shards).resumed == 60


def test_without_resume_it_starts_again(source: dataformats.RecordSource, tmp_path: Path) -> None:
    for name, options in (("one", SHARDS[0]), ("shards", SHARDS[1])):
        interrupt(source, tmp_path / name, 50, format="ffrecord", **options)
        report = dataformats.convert(source, tmp_path / name, "ffrecord", limit=30, **options)
        assert (report.records, report.resumed) == (30, 0)


CHANGES: dict[str, dict[str, Any]] = {
    "limit": {"limit": 59},
    "shuffle_seed": {"shuffle_seed": 1},
    "where": {"where": lambda found: found["n"] != 3},
    "spec": {"fields": ["n", "image"]},
    "map": {"map": lambda found: found},
    "shard_records": {"shard_records": 8},
    "options": {"compression": "gzip"},
}


@loop_over("name", CHANGES)
def test_another_plan_is_refused(source: dataformats.RecordSource, name: str, tmp_path: Path) -> None:
    path, options = tmp_path / "new", {"format": "tfrecord", "shard_records": 9, "map": Interruption(50)}
    interrupt(source, path, 50, format="tfrecord", shard_records=9)
    before = tree(tmp_path)
    with pytest.raises(dataformats.StateMismatchError) as caught:
        dataformats.convert(source, path, resume=True, **{**options, **CHANGES[name]})
    expected: Any = caught.value.expected
    found: Any = caught.value.found
    assert expected.get(name) != found.get(name)
    assert tree(tmp_path) == before


def test_another_source_is_refused(source: dataformats.RecordSource, tmp_path: Path) -> None:
    interrupt(source, tmp_path / "new", 50, format="syrah")
    with pytest.raises(dataformats.StateMismatchError, match="'source'"):
        dataformats.convert(source[:59], tmp_path / "new", "syrah", map=Interruption(50), resume=True)
    with pytest.raises(dataformats.StateMismatchError, match="plan"):
        dataformats.create(tmp_path / "new", "syrah", spec=SPEC, resume=True)
    writer = dataformats.create(tmp_path / "other", "syrah", spec=SPEC, resume=True)
    writer.append(record(0))
    writer.abort()
    with pytest.raises(dataformats.StateMismatchError, match="plan"):
        dataformats.convert(source, tmp_path / "other", "syrah", resume=True)


def test_damaged_shards_are_converted_again(
    source: dataformats.RecordSource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "new"
    options: dict[str, Any] = {"format": "granular", "shard_records": 9}
    interrupt(source, path, 50, **options)
    partial = tmp_path / "new.partial"
    (bag,) = partial.glob("00002-*/image.bag")
    data = bytearray(bag.read_bytes())
    data[100] ^= 1
    bag.write_bytes(data)
    (shard,) = partial.glob("00003-*.partial")
    shutil.rmtree(shard)
    (partial / "00004.json").write_bytes(b"torn")
    report = dataformats.convert(source, path, map=Interruption(-1), resume=True, **options)
    assert (report.records, report.resumed) == (60, 18)
    assert "00002" in caplog.text
    assert "00004" in caplog.text
    assert [found["n"] for found in dataformats.open(path)] == list(range(60))


def test_damaged_shard_of_some_bytes_is_converted_again(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    options: dict[str, Any] = {"format": "tfrecord", "shard_bytes": 1000}
    interrupt(source, path, 50, **options)
    n_sound = len(dataformats.open(tmp_path / "new.partial" / "00000.partial", format="tfrecord"))
    shard = tmp_path / "new.partial" / "00001.partial"
    shard.write_bytes(bytes(shard.stat().st_size))
    report = dataformats.convert(source, path, map=Interruption(-1), resume=True, **options)
    assert (report.records, report.resumed) == (60, n_sound)
    assert [found["n"] for found in dataformats.open(path)] == list(range(60))


def test_strays_are_not_published(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    options: dict[str, Any] = {"format": "tfrecord", "shard_records": 9}
    interrupt(source, path, 50, **options)
    (tmp_path / "new.partial" / "00001-cafe.partial").write_bytes(b"stray")
    (tmp_path / "new.partial" / "00077").write_bytes(b"stray")
    dataformats.convert(source, path, map=Interruption(-1), resume=True, **options)
    assert len(tree(path)) == 7
    assert names(tmp_path) == ["new", "new.dataformats.json"]


def test_duplicate_task_publishes_one_shard(source: dataformats.RecordSource, tmp_path: Path) -> None:
    class Twice(ThreadPoolExecutor):
        def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
            super().submit(work, *arguments, **named)
            return super().submit(work, *arguments, **named)

    with Twice(3) as executor:
        dataformats.convert(source, tmp_path / "new", "ffrecord", shard_records=9, executor=executor)
    assert [found["n"] for found in dataformats.open(tmp_path / "new")] == list(range(60))
    assert names(tmp_path) == ["new", "new.dataformats.json"]


@loop_over("checkpoint_s", [1e9, -1.0])
@loop_over("shards", [*SHARDS, {"shard_bytes": 100}])
def test_omitted_records_are_counted_once_over_resumes(
    shards: dict[str, Any], checkpoint_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that an interrupted run omitted count as omitted, not as written."""
    monkeypatch.setattr(dataformats.converting.converter, "_CHECKPOINT_S", checkpoint_s)
    with dataformats.create(tmp_path / "old.ffr", "ffrecord", spec={"x": "json"}) as writer:
        writer.extend({"x": "no number" if i in (3, 22, 50) else i} for i in range(60))

    progress: list[tuple[int, int]] = []

    def convert(at: int, **options: Any) -> dataformats.ConvertReport:
        def interrupted(done: int, total: int) -> None:
            progress.append((done, total))
            if done >= at:
                raise RuntimeError("interrupted")

        options |= {"spec": {"x": "int64"}, "on_corrupt": "omit", "progress": interrupted, **shards}
        return dataformats.convert(tmp_path / "old.ffr", tmp_path / "new", "granular", **options)

    with pytest.raises(RuntimeError, match="interrupted"):
        convert(40)
    report = convert(1000, resume=True)
    assert (report.records, report.omitted, progress[-1]) == (57, 3, (60, 60))
    expected = [i for i in range(60) if i not in (3, 22, 50)]
    assert [found["x"] for found in dataformats.open(tmp_path / "new")] == expected
    assert convert(1000, resume=True).omitted == 3


def test_appending_deletes_the_plan_from_the_sidecar(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    dataformats.convert(source, path, "granular")
    with dataformats.create(path, "granular", spec=SPEC, resume=True) as writer:
        writer.append(record(60))
    assert len(dataformats.open(path)) == 61
    sidecar = tmp_path / "new.dataformats.json"
    assert "plan" not in (json.loads(sidecar.read_text()) if sidecar.exists() else {})
