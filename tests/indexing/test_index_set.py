"""The indexes of small files in one file: loaded, completed, damaged, and written by several processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.framed.file_scan import scan
from dataformats.indexing import lookup
from dataformats.indexing.index_set import IndexSet
from dataformats.indexing.memory_budget import MemoryBudget

N = 8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight small shards, and a cache folder beside them."""
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    for shard in range(N):
        write(tmp_path / "data" / f"{shard}.tfrecord", shard)
    return tmp_path / "data"


def write(path: Path, shard: int, n: int = 70) -> None:
    with dataformats.create(path, payload="bytes", overwrite=True) as writer:
        writer.extend(blob(shard, i) for i in range(n))
    path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)
    os.utime(path, ns=(10**18 + shard, 10**18 + shard))


def blob(shard: int, i: int) -> bytes:
    return bytes([shard, i]) * (i % 5 + 1)


EVERY = [blob(shard, i) for shard in range(N) for i in range(70)]


def read(folder: Path) -> list[bytes]:
    return [*dataformats.open(folder, payload="bytes").read_bytes(np.arange(N * 70))]


def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the files that are scanned."""
    names: list[str] = []

    def noted(framing: Any, file: Any, *rest: Any) -> Any:
        names.append(file.basename)
        return scan(framing, file, *rest)

    monkeypatch.setattr("dataformats.backends.framed.reader.scan", noted)
    return names


def index_of(folder: Path) -> Path:
    (path,) = (folder.parent / "cache").rglob("*.idx")
    return path


def test_small_files_share_one_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = scanned(monkeypatch)
    assert read(folder) == EVERY
    assert len(names) == N
    before = index_of(folder).read_bytes()
    assert read(folder) == EVERY
    assert len(names) == N
    assert index_of(folder).read_bytes() == before


def test_only_a_changed_file_is_scanned_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(folder) == EVERY
    names = scanned(monkeypatch)
    write(folder / "3.tfrecord", 3, 71)
    for _ in range(2):
        source = dataformats.open(folder, payload="bytes")
        assert len(source) == N * 70 + 1
        assert source.read_bytes([3 * 70, 4 * 70, 4 * 70 + 1]) == [blob(3, 0), blob(3, 70), blob(4, 0)]
    assert names == ["3.tfrecord"]


def test_large_files_have_their_own_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.indexing.index_cache._SMALL", 300)
    write(folder / "3.tfrecord", 3, 5)
    assert len(dataformats.open(folder, payload="bytes")) == (N - 1) * 70 + 5
    assert len([*(folder.parent / "cache").rglob("*.idx")]) == N


@pytest.mark.parametrize("room", [0, 2**30])
def test_damage_is_found_and_repaired(folder: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "INDEX_MEMORY", MemoryBudget(room))
    assert read(folder) == EVERY
    path = index_of(folder)
    sound = path.read_bytes()
    step = 97
    damaged = [sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :] for at in range(0, len(sound), step)]
    damaged += [sound[:at] for at in range(0, len(sound), 3 * step)] + [b"", sound + b"x"]
    for data in damaged:
        path.write_bytes(data)
        assert read(folder) == EVERY
        path.write_bytes(sound)
        source = dataformats.open(folder, payload="bytes")
        assert len(source) == len(EVERY)
        path.write_bytes(data)  # between `len` and the first read
        for _ in range(2):
            assert source.read_bytes(np.arange(0, N * 70, 3)) == EVERY[::3]
    path.write_bytes(damaged[-3])
    names = scanned(monkeypatch)
    assert read(folder) == read(folder) == EVERY
    assert len(names) <= N  # the second time, none


def test_processes_keep_indexes_of_others(tmp_path: Path) -> None:
    path = tmp_path / "x.idx"
    first, second = IndexSet(str(path), None), IndexSet(str(path), None)
    first.add("a", {"n": 1}, b"aaa")
    second.add("b\t\n\udcff", {"n": 2}, b"bb")
    assert (first.save(), second.save(), second.save()) == (3, 2, 0)
    for one in (first, second, IndexSet(str(path), None)):
        for name, header, blocks in (("a", {"n": 1}, b"aaa"), ("b\t\n\udcff", {"n": 2}, b"bb")):
            found = one.load(name)
            assert found is not None
            assert found[0] == header
            assert found[2][0](found[2][2], found[1]) == blocks
    second.add("a", {"n": 3}, b"AAAA")
    second.save()
    assert (first.load("a") or "?")[0] == {"n": 3}
    assert first.load("c") is None


def test_indexes_of_deleted_files_are_dropped(folder: Path) -> None:
    assert read(folder) == EVERY
    size = index_of(folder).stat().st_size
    for shard in range(1, N):
        (folder / f"{shard}.tfrecord").rename(folder / f"new-{shard}.tfrecord")
    assert len(dataformats.open(folder, payload="bytes")) == N * 70
    assert index_of(folder).stat().st_size < size + 10 * N


def test_some_files_of_a_folder_use_the_same_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(folder) == EVERY
    names = scanned(monkeypatch)
    some = dataformats.open([folder / "5.tfrecord", folder / "2.tfrecord"], payload="bytes")
    assert some.read_bytes([0, 70]) == [blob(5, 0), blob(2, 0)]
    assert not names


def test_unwritable_folder_keeps_indexes_in_memory(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder.parent / "file").write_bytes(b"")
    source = dataformats.open(folder, payload="bytes", index=str(folder.parent / "file" / "x"))
    assert source.read_bytes(np.arange(N * 70)) == EVERY
    assert len([record for record in caplog.records if "in memory only" in record.message]) == 1
