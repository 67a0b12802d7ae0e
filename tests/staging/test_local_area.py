"""Staging areas of the local disk: refusals before the first record, and the order of syncs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.backends.tfrecord.backend import TFRecordBackend
from dataformats.backends.tfrecord.writer import TFRecordWriter
from dataformats.interfaces import HasSidecars
from dataformats.registry import backends
from dataformats.staging.entries import ShardEntry
from dataformats.staging.local_area import LocalArea
from dataformats.staging.lock import Mark, NameLock
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over


class WriterWithSidecar(TFRecordWriter, HasSidecars):
    def sidecars(self) -> Mapping[str, Path | None]:
        return {"x.idx": None}


class BackendWithSidecars(TFRecordBackend):
    name = "with_sidecars"

    def create(self, path: Path, *, resume: bool = False, **options: Any) -> Any:
        return WriterWithSidecar(path, resume=resume)


@pytest.fixture
def with_sidecars(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(backends, "_objects", {**backends._objects, "with_sidecars": BackendWithSidecars()})
    return "with_sidecars"


def test_shards_with_sidecars_are_refused(with_sidecars: str, tmp_path: Path) -> None:
    with pytest.raises(dataformats.SpecError, match="files beside its files"):
        dataformats.create(tmp_path / "x", with_sidecars, shard_records=2)
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord") as writer:
        writer.append(b"a")
    with pytest.raises(dataformats.SpecError, match="files beside its files"):
        dataformats.convert(tmp_path / "a.tfrecord", tmp_path / "x", with_sidecars, shard_records=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tfrecord"]


def test_entry_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area = LocalArea(tmp_path / "x")
    area.lock(backends.get("tfrecord"), overwrite=False, resume=False)
    area.begin({"format": "tfrecord"}, resume=False, sharded=True)
    steps: list[str] = []

    def noted(name: str) -> None:
        step = getattr(os, name)

        def call(*arguments: Any) -> None:
            steps.append(name)
            step(*arguments)

        patched.setattr(os, name, call)

    with monkeypatch.context() as patched:
        noted("fsync")
        noted("replace")
        area.write_entry(0, ShardEntry("00000.partial", {"name": "00000", "records": 1, "bytes": 1}))
    assert steps == ["fsync", "replace", "fsync"]  # the last one is of the folder
    area.discard()
    area.release()


def test_append_after_a_kill_keeps_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the longer data had the name, and the shorter ones were to be deleted."""
    options: dict[str, Any] = {"format": "tfrecord", "spec": {"n": "int64"}, "shard_records": 4}
    path = tmp_path / "x"
    with dataformats.create(path, **options) as writer:
        writer.extend({"n": n} for n in range(10))
    writer = dataformats.create(path, append=True, resume=True, **options)
    writer.extend({"n": n} for n in range(10, 15))
    with monkeypatch.context() as patched:
        patched.setattr(LocalArea, "discard", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    with dataformats.create(path, append=True, resume=True, **options) as writer:
        assert len(writer) == 15
    assert [record["n"] for record in dataformats.open(path)] == list(range(15))


@loop_over("left", [b"", bytes(100)])
@loop_over("resume", [False, True])
def test_partial_data_with_a_lost_sidecar_are_begun_anew(left: bytes, resume: bool, tmp_path: Path) -> None:
    """Data after a crash of the machine."""
    path = tmp_path / "x.tfrecord"
    writer = dataformats.create(path, resume=True)
    writer.append(b"old")
    writer.abort()
    path.with_name("x.tfrecord.partial.dataformats.json").write_bytes(left)
    with dataformats.create(path, resume=resume) as writer:
        assert len(writer) == 0
        writer.append(b"new")
    assert list(dataformats.open(path)) == [b"new"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.tfrecord"]


def test_sidecar_of_a_killed_publication_is_deleted_with_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.tfrecord"
    options: dict[str, Any] = {"spec": {"n": "int64"}}
    writer = dataformats.create(path, resume=True, **options)
    with monkeypatch.context() as patched:  # killed: what the writer does behind an error is not done
        patched.setattr(atomic, "rename_new", lambda *_: 1 // 0)
        patched.setattr(LocalArea, "holds", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            writer.close()
    names = ["x.tfrecord.dataformats.json", "x.tfrecord.partial", "x.tfrecord.partial.dataformats.json"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names
    dataformats.create(path, resume=True, **options).abort()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names[1:]  # an abort may delete the rest, too
    dataformats.create(path, **options).abort()
    assert list(tmp_path.iterdir()) == []


def test_damaged_copy_of_an_extended_file_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with dataformats.create(path) as writer:
        writer.extend([b"a" * 100] * 3)
    dataformats.create(path, append=True, resume=True).abort()
    partial = path.with_name("x.tfrecord.partial")
    partial.write_bytes(bytes(partial.stat().st_size))
    with dataformats.create(path, append=True, resume=True) as writer:
        assert len(writer) == 3
        writer.append(b"b")
    assert len(dataformats.open(path)) == 4


def test_extend_keeps_records_before_a_failing_iterator(tmp_path: Path) -> None:
    def failing() -> Any:
        yield from ({"n": n} for n in range(10))
        raise ZeroDivisionError

    writer = dataformats.create(tmp_path / "x.tfrecord", spec={"n": "int64"}, workers=2)
    with pytest.raises(ZeroDivisionError):
        writer.extend(failing())
    assert len(writer) == 10
    writer.abort()


def test_only_committed_and_growing_shards_are_kept(tmp_path: Path) -> None:
    area = LocalArea(tmp_path / "x")
    area.lock(backends.get("tfrecord"), overwrite=False, resume=False)
    area.begin({"format": "tfrecord"}, resume=False, sharded=True)
    entry = ShardEntry("00000.partial", {"name": "00000", "records": 1, "bytes": 1})
    area.write_entry(0, entry)
    for name in ("00000.partial", "00001.partial", "00002.attempt"):
        (area.folder / name).touch()
    area.keep_only({0: entry}, growing=1)
    assert sorted(path.name for path in area.folder.iterdir()) == ["00000.json", "00000.partial", "00001.partial"]
    area.keep_only({})
    assert list(area.folder.iterdir()) == []
    area.discard()
    area.release()


def test_announcement_stays_while_data_are_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of power after it was cut off would leave data of the other name that no later call takes for its own."""
    for _ in range(2):
        area = LocalArea(tmp_path / "x")
        area.lock(backends.get("tfrecord"), overwrite=False, resume=False)
        area.begin({"format": "tfrecord"}, resume=False, sharded=False)
        area.partial.touch()
        area.announce({"y": []})
        area.release()
        monkeypatch.setattr(os, "ftruncate", lambda *_: 1 // 0)


def test_mark_behind_a_torn_one_is_found(tmp_path: Path) -> None:
    """A loss of power left zeros for the mark; the next publication writes another."""
    lock = NameLock(tmp_path / "x.partial.dataformats.json", tmp_path / "x")
    lock.acquire(shared=False)
    lock.write({"format": "tfrecord"}, sync=True)
    with lock.path.open("ab") as file:
        file.write(bytes(50))
    mark = Mark(7, {"x": "x.partial"}, {"x-00000-of-00001": "00000.partial"})
    lock.write_mark(mark)
    assert lock.mark() == mark
    lock.release()


def test_complete_data_of_a_killed_writer_get_their_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.txt"
    arguments: dict[str, Any] = {"format": "jsonl", "resume": True}
    source.write_bytes(b"1\n2\n")
    dataformats.convert(source, tmp_path / "x.jsonl", **arguments)
    synced = list[Path]()
    monkeypatch.setattr(atomic, "sync", synced.append)
    dataformats.convert(source, tmp_path / "x.jsonl", **arguments)
    assert tmp_path in synced
