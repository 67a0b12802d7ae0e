"""Conversions in parts, as the processes of a job array run them, and their commit."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over

SPEC = {"n": "int64", "text": "utf8"}
N = 60
OPTIONS: dict[str, Any] = {"format": "granular", "shard_records": 9}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> dataformats.RecordSource:
    path = tmp_path_factory.mktemp("source") / "source.tfrecord"
    with dataformats.create(path, "tfrecord", spec=SPEC) as writer:
        writer.extend({"n": i, "text": "é" * (i % 7)} for i in range(N))
    return dataformats.open(path)


def tree(path: Path) -> dict[str, bytes]:
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.endswith(".idx")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def only_data(folder: Path, name: str = "new") -> bool:
    """True if nothing partial is left."""
    found = sorted(path.name for path in folder.iterdir() if path.name != f"{name}.dataformats.idx")
    return found == [name, f"{name}.dataformats.json"]


@pytest.mark.parametrize("format", ["tfrecord", "granular"])
def test_concurrent_duplicate_parts_write_the_same_bytes(
    source: dataformats.RecordSource, format: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"format": format, "shard_records": 9}
    whole = dataformats.convert(source, tmp_path / "whole" / "new", **options)

    def write(number: int) -> dataformats.ConvertReport:
        return dataformats.convert(source, tmp_path / "parts" / "new", part=(number, 3), **options)

    with ThreadPoolExecutor(6) as threads:
        reports = list(threads.map(write, [0, 1, 2, 0, 1, 2]))
    assert [(report.records, report.files) for report in reports[:3]] == [(24, 3), (18, 2), (18, 2)]
    again = write(0)
    assert (again.records, again.resumed) == (24, 24)
    assert not (tmp_path / "parts" / "new").exists()
    report = dataformats.convert(source, tmp_path / "parts" / "new", publish_parts=True, **options)
    assert (report.records, report.files, report.nbytes, report.resumed) == (N, 7, whole.nbytes, 0)
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert only_data(tmp_path / "parts")
    late: list[dict[str, Any]] = [{"publish_parts": True}, {"part": (1, 3)}]
    for which in [*late, *({**which, "overwrite": True} for which in late)]:
        assert dataformats.convert(source, tmp_path / "parts" / "new", **which, **options).records == N
    assert only_data(tmp_path / "parts")


def test_a_commit_names_the_missing_parts(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(dataformats.StateMismatchError, match="expected 7, found 0"):
        dataformats.convert(source, path, publish_parts=True, **OPTIONS)
    assert not list(tmp_path.iterdir())
    dataformats.convert(source, path, part=(1, 4), **OPTIONS)
    dataformats.convert(source, path, part=(3, 4), **OPTIONS)
    with pytest.raises(dataformats.StateMismatchError, match=r"expected 7, found 3. Run the parts 0/4, 2/4 again"):
        dataformats.convert(source, path, publish_parts=True, **OPTIONS)
    dataformats.convert(source, path, part=(0, 2), **OPTIONS)  # a plan with another number of parts
    (gone,) = (tmp_path / "new.partial").glob("00005-*.partial")
    shutil.rmtree(gone)
    with pytest.raises(dataformats.StateMismatchError, match=r"expected 7, found 6. Run the parts that write .* 5 "):
        dataformats.convert(source, path, publish_parts=True, **OPTIONS)
    dataformats.convert(source, path, part=(1, 2), **OPTIONS)
    assert dataformats.convert(source, path, publish_parts=True, **OPTIONS).records == N
    assert [record["n"] for record in dataformats.open(path)] == list(range(N))


@pytest.mark.parametrize("failing", ["os.rename", "dataformats.storage.atomic.rename_new"])
@pytest.mark.parametrize("first", [{"publish_parts": True}, {"part": (0, 1)}], ids=["commit", "part"])
def test_failed_commit_is_repeated(
    source: dataformats.RecordSource,
    failing: str,
    first: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error comes between two renames of shards, or before the rename of the folder."""
    path, calls = tmp_path / "new", []
    rename = os.rename

    def fail(old: Path, new: Path) -> Any:
        calls.append(new)
        if len(calls) == 4 or "rename_new" in failing:
            raise OSError("no more")
        return rename(old, new)

    dataformats.convert(source, path, part=(0, 1), **OPTIONS)
    with monkeypatch.context() as patched:
        patched.setattr(failing, fail)
        with pytest.raises(OSError, match="no more"):
            dataformats.convert(source, path, publish_parts=True, **OPTIONS)
    assert not path.exists()
    report = dataformats.convert(source, path, **first, **OPTIONS)
    assert (report.records, report.resumed) == (N, N if "part" in first else 0)
    assert dataformats.convert(source, path, publish_parts=True, **OPTIONS).records == N
    assert [record["n"] for record in dataformats.open(path)] == list(range(N))
    assert only_data(tmp_path)


def test_parts_of_another_plan_are_refused(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    dataformats.convert(source, path, part=(0, 2), **OPTIONS)
    before = tree(tmp_path)
    others: list[dict[str, Any]] = [{"part": (1, 2)}, {"publish_parts": True}]
    for other in others:
        with pytest.raises(dataformats.StateMismatchError, match="limit"):
            dataformats.convert(source, path, limit=50, **other, **OPTIONS)
    assert tree(tmp_path) == before


def test_parts_share_the_data_and_refuse_others(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    refused: list[dict[str, Any]] = []

    def others(done: int, total: int) -> None:
        if done < total:
            return
        assert dataformats.convert(source, path, part=(1, 2), **OPTIONS).records == 27
        ways: list[dict[str, Any]] = [{"publish_parts": True}, {"resume": True}, {}]
        for other in ways:
            with pytest.raises(dataformats.TargetInUseError):
                dataformats.convert(source, path, **other, **OPTIONS)
            refused.append(other)

    dataformats.convert(source, path, part=(0, 2), progress=others, **OPTIONS)
    assert len(refused) == 3
    report = dataformats.convert(source, path, resume=True, **OPTIONS)  # it publishes the shards of parts, too
    assert (report.records, report.resumed) == (N, N)
    assert only_data(tmp_path)


def test_late_part_waits_for_the_commit(source: dataformats.RecordSource, tmp_path: Path) -> None:
    """It waits for the lock of the commit, which has deleted the locked file by then."""
    path = tmp_path / "new"
    for number in range(2):
        dataformats.convert(source, path, part=(number, 2), **OPTIONS)
    with ThreadPoolExecutor(1) as thread:
        late = []

        def start(done: int, total: int) -> None:
            late.append(thread.submit(dataformats.convert, source, path, part=(0, 2), **OPTIONS))

        dataformats.convert(source, path, publish_parts=True, progress=start, **OPTIONS)
        assert late[0].result().records == N
    assert only_data(tmp_path)


def test_parts_keep_old_data_until_the_commit(source: dataformats.RecordSource, tmp_path: Path) -> None:
    path = tmp_path / "new"
    with dataformats.create(path, "granular", spec={"n": "int64"}, shard_records=2) as writer:
        writer.extend({"n": -i} for i in range(5))
    with pytest.raises(dataformats.TargetExistsError):
        dataformats.convert(source, path, part=(0, 1), **OPTIONS)
    for number in range(2):
        dataformats.convert(source, path, part=(number, 2), overwrite=True, **OPTIONS)
    assert len(dataformats.open(path)) == 5
    assert dataformats.convert(source, path, publish_parts=True, overwrite=True, **OPTIONS).records == N
    assert len(dataformats.open(path)) == N
    assert only_data(tmp_path)


def test_omitted_records_are_counted_by_part_and_in_all(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "old.ffr", "ffrecord", spec={"x": "json"}) as writer:
        writer.extend({"x": "no number" if i in (3, 22, 50, 54, 55, 56, 57, 58, 59) else i} for i in range(N))
    options: dict[str, Any] = {**OPTIONS, "spec": {"x": "int64"}, "on_corrupt": "omit"}
    path = tmp_path / "new" / "new"
    found = [dataformats.convert(tmp_path / "old.ffr", path, part=(i, 2), **options) for i in range(2)]
    assert [(report.records, report.omitted) for report in found] == [(25, 8), (26, 1)]
    report = dataformats.convert(tmp_path / "old.ffr", path, publish_parts=True, **options)
    assert (report.records, report.omitted, report.files) == (51, 9, 6)


@loop_over(
    "options, message",
    [
        ({"part": (2, 2)}, "0 <= i < n"),
        ({"part": (0, 2), "publish_parts": True}, "not both"),
        ({"part": (0, 2), "shard_records": None}, "shard_records="),
        ({"publish_parts": True, "shard_bytes": 100}, "shard_records="),
    ],
)
def test_wrong_arguments(
    source: dataformats.RecordSource, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        dataformats.convert(source, tmp_path / "new", **{**OPTIONS, **options})
    assert not list(tmp_path.iterdir())
