"""Conversions behind a URL: in parts, or interrupted and resumed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dataformats
from tests.reading.test_verify_executors import Pickling
from tests.writing.failing_memory import Killed, Remote

SPEC = {"n": "int64", "text": "utf8"}
N = 30
OPTIONS: dict[str, Any] = {"format": "granular", "shard_records": 9}
URL = "memory://bucket/new"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dataformats.RecordSource:
    path = tmp_path_factory.mktemp("source") / "source.tfrecord"
    with dataformats.create(path, "tfrecord", spec=SPEC) as writer:
        writer.extend({"n": i, "text": "é" * (i % 7)} for i in range(N))
    return dataformats.open(path)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Remote:
    return Remote(monkeypatch)


def numbers() -> list[int]:
    return [record["n"] for record in dataformats.open(URL)]


def names(remote: Remote) -> set[str]:
    """Return the first part of the names of all objects."""
    return {path.split("/")[2] for path in remote.memory.find("/bucket")}


def test_parts_at_once_and_commit(source: dataformats.RecordSource, remote: Remote, tmp_path: Path) -> None:
    def write(number: int) -> int:
        return dataformats.convert(source, URL, part=(number, 2), **OPTIONS).records

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(write, [0, 1, 1])) == [18, 12, 12]
    again = dataformats.convert(source, URL, part=(0, 2), **OPTIONS)
    assert (again.records, again.resumed) == (18, 18)
    with pytest.raises(dataformats.StateMismatchError, match="limit"):
        dataformats.convert(source, URL, part=(0, 2), limit=5, **OPTIONS)
    assert names(remote) == {"new.partial"}
    remote.memory.rm(remote.memory.glob("/bucket/new.partial/*/00003-*")[0], recursive=True)
    remote.memory.rm(remote.memory.glob("/bucket/new.partial/*/00003.json")[0])
    with pytest.raises(dataformats.StateMismatchError, match=r"expected 4, found 3. Run the parts 1/2"):
        dataformats.convert(source, URL, publish_parts=True, **OPTIONS)
    write(1)
    report = dataformats.convert(source, URL, publish_parts=True, **OPTIONS)
    assert (report.records, report.files) == (N, 4)
    assert names(remote) == {"new", "new.dataformats.json"}
    assert numbers() == list(range(N))
    dataformats.convert(source, tmp_path / "new", **OPTIONS)
    for file in (path for path in (tmp_path / "new").rglob("*") if path.is_file()):
        assert remote.memory.cat_file(f"/bucket/{file.relative_to(tmp_path)}") == file.read_bytes()
    late: list[dict[str, Any]] = [{"publish_parts": True}, {"resume": True}]
    for which in late:
        assert dataformats.convert(source, URL, **which, **OPTIONS).records == N


def test_an_interrupted_conversion_resumes(source: dataformats.RecordSource, remote: Remote) -> None:
    def interrupted(done: int, _: int) -> None:
        if done >= 18:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataformats.convert(source, URL, progress=interrupted, **OPTIONS)
    report = dataformats.convert(source, URL, resume=True, executor=Pickling(), **OPTIONS)
    assert (report.records, report.resumed) == (N, 18)
    assert numbers() == list(range(N))
    assert names(remote) == {"new", "new.dataformats.json"}


def test_data_without_their_last_sidecar_are_not_complete(source: dataformats.RecordSource, remote: Remote) -> None:
    remote.fail(1000, stays=True)
    dataformats.convert(source, URL, **OPTIONS)
    last = max(at for at, step in enumerate(remote.steps) if step == ("pipe_file", "/bucket/new.dataformats.json"))
    remote.memory.rm("/bucket", recursive=True)
    remote.fail(last, stays=True)
    with pytest.raises(Killed):
        dataformats.convert(source, URL, **OPTIONS)
    remote.at = -1
    assert dataformats.convert(source, URL, resume=True, **OPTIONS).records == N
    assert numbers() == list(range(N))


def test_bad_record_leaves_the_objects_of_others(source: dataformats.RecordSource, remote: Remote) -> None:
    def refused(record: dict[str, Any]) -> dict[str, Any]:
        if record["n"] == 20:
            raise dataformats.SpecError("no")
        return record

    dataformats.convert(source, URL, part=(0, 2), **OPTIONS)
    before = remote.memory.find("/bucket")
    with pytest.raises(dataformats.SpecError):
        dataformats.convert(source, URL, map=refused, **OPTIONS)
    assert remote.memory.find("/bucket") == before
    dataformats.convert(source, URL, **OPTIONS)
    assert names(remote) == {"new", "new.dataformats.json"}


def test_a_single_file_is_not_resumed(source: dataformats.RecordSource) -> None:
    with pytest.raises(ValueError, match="expected a local path"):
        dataformats.convert(source, f"{URL}.ffr", resume=True)
