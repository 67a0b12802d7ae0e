"""The model of a disk that loses power loses unsynced data, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.deep.durability.power_loss.disk import Disk, FileSystem
from tests.deep.durability.power_loss.recording import Event, Kind
from tests.deep.durability.power_loss.tree import Entry, Tree

ROOT, OLD, NEW, FOLDER = 1, 2, 3, 4
BEFORE: Tree = {"": Entry("folder", ROOT), "a": Entry("file", OLD, b"old data"), "folder": Entry("folder", FOLDER)}
EXCHANGE = 2
ORDERED = [FileSystem(order, names) for order in ("journal", "folder") for names in (False, True)]
ALL = [*ORDERED, FileSystem("none")]


def event(kind: Kind, a: int = 0, b: int = 0, c: int = 0, text: bytes = b"", text2: bytes = b"") -> Event:
    return Event(kind, a, b, c, 0, text, text2)


def create(name: str, inode: int = NEW, folder: int = ROOT) -> Event:
    return event(Kind.CREATE, folder, inode, text=name.encode())


def write(data: bytes, at: int = 0, inode: int = NEW) -> Event:
    return event(Kind.WRITE, inode, at, text=data)


def rename(name: str, name2: str, folder: int = ROOT, folder2: int = ROOT, flags: int = 0) -> Event:
    return event(Kind.RENAME, folder, folder2, flags, name.encode(), name2.encode())


def sync(inode: int) -> Event:
    return event(Kind.SYNC, inode)


def trees(events: list[Event], file_system: FileSystem, n: int = 200) -> Iterator[dict[str, bytes]]:
    """Yield path to content after power losses."""
    disk = Disk(BEFORE, file_system)
    disk.apply(events)
    for seed in range(n):
        tree, _ = disk.tree_after_power_loss(random.Random(seed))
        yield {name: entry.content for name, entry in tree.items() if entry.kind == "file"}


def found(name: str, events: list[Event], file_system: FileSystem) -> set[bytes | None]:
    """Return the contents that a name may have; `None` if it may be missing."""
    return {tree.get(name) for tree in trees(events, file_system)}


@pytest.mark.parametrize("file_system", ALL, ids=str)
def test_synced_data_stay(file_system: FileSystem) -> None:
    events = [create("b"), write(b"new"), sync(NEW), sync(ROOT), create("c", 9), write(b"more", 0, 9)]
    assert found("b", events, file_system) == {b"new"}
    assert found("a", events, file_system) == {b"old data"}
    assert found("c", events, file_system) == {None, b"", b"\0\0\0\0", b"more"}


@pytest.mark.parametrize("file_system", ALL, ids=str)
def test_replaced_file_is_old_or_new(file_system: FileSystem) -> None:
    right = [create("b"), write(b"new"), sync(NEW), rename("b", "a"), sync(ROOT)]
    assert found("a", right, file_system) == {b"new"}
    assert found("a", right[:-1], file_system) == {b"old data", b"new"}
    without_data = [create("b"), write(b"new"), rename("b", "a"), sync(ROOT)]
    assert found("a", without_data, file_system) == {b"", b"\0\0\0", b"new"}


@pytest.mark.parametrize("file_system", ALL, ids=str)
def test_exchange_is_atomic(file_system: FileSystem) -> None:
    events = [create("b"), write(b"new"), sync(NEW), sync(ROOT), rename("b", "a", flags=EXCHANGE)]
    pairs = {(tree["a"], tree["b"]) for tree in trees(events, file_system)}
    assert pairs == {(b"old data", b"new"), (b"new", b"old data")}


@pytest.mark.parametrize("file_system", ALL, ids=str)
def test_rename_to_other_folder_is_atomic(file_system: FileSystem) -> None:
    events = [rename("a", "a", ROOT, FOLDER)]
    paths = {tuple(tree) for tree in trees(events, file_system)}
    assert paths == {("a",), ("folder/a",)}
    assert found("folder/a", [*events, sync(FOLDER)], file_system) == {b"old data"}


@pytest.mark.parametrize(("file_system", "is_there"), [*zip(ORDERED, (True, True, False, True), strict=True)])
def test_sync_of_file_may_keep_its_name(file_system: FileSystem, is_there: bool) -> None:
    events = [create("b"), write(b"new"), sync(NEW)]
    assert found("b", events, file_system) == ({b"new"} if is_there else {None, b"new"})


def test_order_of_names_in_folders() -> None:
    events = [create(name, number) for number, name in enumerate("xyz", 10)]
    events.insert(1, create("w", 20, FOLDER))

    def names(file_system: FileSystem) -> set[str]:
        return {"".join(sorted(name[-1] for name in tree if name != "a")) for tree in trees(events, file_system)}

    assert names(FileSystem("journal")) == {"", "x", "wx", "wxy", "wxyz"}
    assert names(FileSystem("folder")) == {*("", "x", "xy", "xyz"), *("w", "wx", "wxy", "wxyz")}
    assert {"z", "wz", "xz"} <= names(FileSystem("none"))


def test_blocks_are_lost_individually() -> None:
    data = b"1" * 4096 + b"2" * 4096 + b"3" * 100
    contents = found("a", [write(data[8:], 8, OLD)], FileSystem())
    for content in contents:
        assert content is not None
        assert all(not part.strip(part[-1:]) for part in (content[8:4096], content[4096:8192], content[8192:]))
    assert b"old data" in contents
    assert b"old data" + data[8:4096] + bytes(4096) + data[8192:] in contents


def test_truncated_bytes_do_not_come_back() -> None:
    events = [event(Kind.TRUNCATE, OLD, 0), write(b"new, and longer", 0, OLD)]
    assert found("a", events, FileSystem()) == {b"old data", b"", bytes(15), b"new, and longer"}


def test_killed_process_loses_nothing() -> None:
    disk = Disk(BEFORE, FileSystem())
    disk.apply([create("b"), write(b"new"), rename("b", "a"), event(Kind.LINK, FOLDER, NEW, text=b"c")])
    assert {name: entry.content for name, entry in disk.tree().items()} == {
        "": b"",
        "a": b"new",
        "folder": b"",
        "folder/c": b"new",
    }
