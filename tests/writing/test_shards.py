"""A writer of shards that dies between two steps, and damage to its leftovers: a resume finds the synced records."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.backends.tfrecord.backend import TFRecordBackend
from dataformats.backends.tfrecord.writer import TFRecordWriter
from dataformats.batch import StoredRecords
from dataformats.interfaces import FilePlace
from dataformats.registry import backends
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over

SPEC = {"n": "int64"}


class NotingBackend(TFRecordBackend):
    """TFRecord whose writers note where their files belong."""

    name = "noting"

    def __init__(self) -> None:
        self.places: list[FilePlace] = []

    def create(self, path: Path, *, place: FilePlace, **options: Any) -> TFRecordWriter:  # type: ignore[override]
        self.places.append(place)
        return super().create(path, **options)


@loop_over(
    "name, options, expected",
    [
        ("a.tfrecord", {}, [FilePlace("a.tfrecord")]),
        ("train", {"shard_records": 4}, [FilePlace(None, number, 4 * number) for number in range(3)]),
        (
            "train",
            {"shard_start": 1, "shard_step": 2, "shard_records": 5},
            [FilePlace(f"train-0000{number}.tfrecord", number, None) for number in (1, 3)],
        ),
    ],
)
def test_writers_know_their_place(
    tmp_path: Path, name: str, options: dict[str, Any], expected: list[FilePlace]
) -> None:
    backend = NotingBackend()
    dataformats.register_backend(backend)
    try:
        with dataformats.create(tmp_path / name, "noting", spec=SPEC, **options) as writer:
            writer.extend({"n": n} for n in range(10))
    finally:
        del backends._objects["noting"]
    assert backend.places == expected


def write_and_die(path: Path, format: str, at: str, number: int) -> None:
    """Write 10 records in shards of 4, all synced, and end at the `number`-th call of a step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        return
    owner, name = {"rename": (os, "rename"), "entry": (atomic, "write_bytes"), "publish": (atomic, "publish")}[at]
    original = getattr(owner, name)
    calls = 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        if at != "publish" or str(arguments[0]) == f"{path}.complete.partial":
            calls += 1
        if calls == number:
            os._exit(9)
        return original(*arguments, **options)

    try:
        setattr(owner, name, counted)
        with dataformats.create(path, format, spec=SPEC, shard_records=4, resume=True) as writer:
            for n in range(10):
                writer.append({"n": n})
                writer.flush(sync=True)
    finally:
        os._exit(1)


@loop_over("format", ["tfrecord", "ffrecord"])
@loop_over(
    "at, number, safe",
    [("entry", 1, 4), ("entry", 2, 8), ("entry", 3, 10), ("entry", 4, 10), ("rename", 2, 10), ("publish", 1, 10)],
)
def test_every_step_can_be_the_last(tmp_path: Path, format: str, at: str, number: int, safe: int) -> None:
    path = tmp_path / "data"
    write_and_die(path, format, at, number)
    assert not path.exists()
    with dataformats.create(path, format, spec=SPEC, shard_records=4, resume=True) as writer:
        assert len(writer) == safe
        writer.extend({"n": n} for n in range(safe, 14))
    src = dataformats.open(path)
    assert [record["n"] for record in src] == list(range(14))
    assert len(src.paths) == 4
    assert [left.name for left in tmp_path.iterdir() if "partial" in left.name] == []
    assert dataformats.verify(path).ok


# ---- damage to leftovers of an interrupted writer


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The name of data with two complete shards of 4 records, and a third shard with one record."""
    path = tmp_path / "made" / "x"
    writer = dataformats.create(path, "tfrecord", spec=SPEC, shard_records=4, resume=True)
    writer.extend({"n": n} for n in range(9))
    writer.abort()
    return path


def resumed_numbers(path: Path) -> list[int]:
    with dataformats.create(path, "tfrecord", spec=SPEC, shard_records=4, resume=True) as writer:
        writer.extend({"n": n} for n in range(len(writer), 14))
    return [record["n"] for record in dataformats.open(path)]


def test_damaged_entry_costs_no_record(interrupted: Path, tmp_path: Path) -> None:
    """Any changed byte, and any truncation: its shard is resumed like one that grows."""
    entry = interrupted.with_name("x.partial") / "00001.json"
    sound = entry.read_bytes()
    damaged = [sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :] for at in range(0, len(sound), 3)]
    texts = [b"[4, 4", b"[4, -4]", b'["4"]', b"[" * 100_000, b"\n", b"{}\n", b"null", sound + sound]
    for number, text in enumerate([*damaged, *texts, *(sound[:at] for at in range(0, len(sound), 9))]):
        path = tmp_path / str(number) / "x"
        shutil.copytree(interrupted.parent, path.parent)
        (path.with_name("x.partial") / entry.name).write_bytes(text)
        assert resumed_numbers(path) == list(range(14))


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:50] + b"\0" + data[51:], lambda _: b""])
def test_a_damaged_shard_is_not_believed(interrupted: Path, damage: Callable[[bytes], bytes]) -> None:
    shard = interrupted.with_name("x.partial") / "00001.partial"
    shard.write_bytes(damage(shard.read_bytes()))
    with pytest.raises(dataformats.FormatError, match="00001") as error:
        resumed_numbers(interrupted)
    assert "the 4 records before it" in str(error.value.remedy)
    shard.unlink()
    assert resumed_numbers(interrupted) == list(range(14))


def test_shards_behind_a_missing_one_are_written_again(interrupted: Path, caplog: pytest.LogCaptureFixture) -> None:
    (interrupted.with_name("x.partial") / "00000.partial").unlink()
    assert resumed_numbers(interrupted) == list(range(14))
    assert "00000 is missing" in caplog.text
    assert len(list(interrupted.iterdir())) == 4


def test_shard_without_entry_keeps_its_records(interrupted: Path) -> None:
    (interrupted.with_name("x.partial") / "00000.json").unlink()
    with dataformats.create(interrupted, "tfrecord", spec=SPEC, shard_records=4, resume=True) as writer:
        assert len(writer) == 4
        writer.extend({"n": n} for n in range(4, 14))
    assert [record["n"] for record in dataformats.open(interrupted)] == list(range(14))


@loop_over("options", [{"shard_records": 9}, {"shard_bytes": 999}])
@loop_over(
    "append",
    [
        lambda writer: writer.append(b"b"),
        lambda writer: writer.extend([b"b"]),
        lambda writer: writer.append_stored(StoredRecords.join("ffrecord", [b"b"])),
    ],
)
def test_append_opens_shard_after_failed_next_shard(
    options: dict[str, Any], append: Callable[[Any], None], tmp_path: Path
) -> None:
    in_the_way = tmp_path / "x.partial" / "00001.partial"
    with dataformats.create(tmp_path / "x", "ffrecord", **options) as writer:
        writer.append(b"a")
        in_the_way.mkdir()
        with pytest.raises(IsADirectoryError):
            writer.next_shard()
        assert len(writer) == 1
        in_the_way.rmdir()
        append(writer)
        assert len(writer) == 2
    assert list(dataformats.open(tmp_path / "x")) == [b"a", b"b"]


def test_finished_folders_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "x"
    writer = dataformats.create(path, "granular", spec=SPEC, shard_records=4, resume=True)
    writer.extend({"n": n} for n in range(9))
    writer.abort()
    bag = tmp_path / "x.partial" / "00000.partial" / "n.bag"
    bag.write_bytes(bag.read_bytes()[:-1] + b"\xff")
    with pytest.raises(dataformats.FormatError, match="00000"):
        dataformats.create(path, "granular", spec=SPEC, shard_records=4, resume=True)


def test_shards_of_a_hidden_folder_are_found(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / ".hidden", "tfrecord", shard_records=2) as writer:
        writer.extend([b"a", b"b", b"c"])
    assert [*dataformats.open(tmp_path / ".hidden")] == [b"a", b"b", b"c"]
