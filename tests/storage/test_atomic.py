"""Files and folders are published in one rename."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataformats.storage import atomic, rename
from dataformats.storage.file_lock import FileLock
from dataformats.testing.loop_over import loop_over

KINDS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "file": lambda path: path.write_bytes(b"old"),
    "folder": lambda path: (path / "old").mkdir(parents=True),
    "link to a file": lambda path: path.symlink_to(_made(path.with_name("target"), "file")),
    "link to a folder": lambda path: path.symlink_to(_made(path.with_name("target"), "folder")),
    "dangling link": lambda path: path.symlink_to(path.with_name("missing")),
}


def _made(path: Path, kind: str) -> Path:
    KINDS[kind](path)
    return path


@pytest.fixture(params=["exchange", "no exchange"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with renames that exchange, and as on a file system without them."""
    if request.param == "no exchange":
        monkeypatch.setattr(rename, "_system_call", lambda: lambda *_: False)


@loop_over("there", KINDS)
@loop_over("new", ["file", "folder"])
def test_everything_is_replaced_by_everything(exchange: None, tmp_path: Path, there: str, new: str) -> None:
    final, partial = tmp_path / "final", tmp_path / "partial"
    KINDS[there](final)
    if new == "file":
        partial.write_bytes(b"new")
    else:
        (partial / "new").mkdir(parents=True)
    before = _content(tmp_path / "target")
    atomic.publish(partial, final)
    assert _content(final) == (b"new" if new == "file" else ["new"])
    assert not final.is_symlink()
    assert _content(tmp_path / "target") == before
    atomic.remove(partial)
    assert {path.name for path in tmp_path.iterdir()} <= {"final", "target"}


def _content(path: Path) -> bytes | list[str] | None:
    if path.is_dir():
        return [entry.name for entry in path.iterdir()]
    return path.read_bytes() if path.exists() else None


@loop_over("there", KINDS)
@loop_over("new", ["file", "folder"])
def test_without_replace_nothing_is_replaced(exchange: None, tmp_path: Path, there: str, new: str) -> None:
    final, partial = tmp_path / "final", tmp_path / "partial"
    KINDS[new](partial)
    if there == "nothing":
        atomic.publish(partial, final, replace=False)
        assert [path.name for path in tmp_path.iterdir()] == ["final"]
        return
    KINDS[there](final)
    before = final.lstat()
    with pytest.raises(FileExistsError, match="final"):
        atomic.publish(partial, final, replace=False)
    assert final.lstat() == before
    assert partial.exists()


@loop_over("step", [1, 2, 3])
def test_old_data_are_restored_if_a_rename_fails(step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rename, "_system_call", lambda: None)
    final, partial = tmp_path / "final", tmp_path / "partial"
    KINDS["folder"](final)
    (partial / "new").mkdir(parents=True)
    renames = [0]

    def failing(source: Path, target: Path) -> None:
        renames[0] += 1
        if renames[0] == step:
            raise OSError(errno.EIO, "Input/output error")
        original(source, target)

    original = os.rename
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", failing)
        with pytest.raises(OSError, match="Input/output"):
            atomic.publish(partial, final)
    assert _content(final) == ["old"]
    assert _content(partial) == ["new"]
    assert len(list(tmp_path.iterdir())) == 2


def test_other_errors_of_an_exchange_are_raised(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    with pytest.raises(FileNotFoundError, match="partial"):
        atomic.publish(tmp_path / "partial", tmp_path / "final")
    assert (tmp_path / "final").is_dir()


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [bytes([i]) * 5000 for i in range(8)]

    def write(text: bytes) -> None:
        for _ in range(5):
            atomic.write_bytes(path, text)

    workers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        assert not path.exists() or path.read_bytes() in texts
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    atomic.remove(tmp_path / "link")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_leftover_of_a_killed_process_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"left by a killed process, and longer than the new one")
    atomic.write_bytes(tmp_path / "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"new"}


def test_locked_temporary_name_is_avoided(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "file.partial", create=True)
    atomic.write_bytes(tmp_path / "file", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.partial"]
    lock.release()
    assert (tmp_path / "file").read_bytes() == b"new"


@loop_over("there", ["link to a file", "link to a folder", "dangling link", "folder"])
def test_linked_temporary_name_is_avoided(there: str, tmp_path: Path) -> None:
    """An archive may hold such a link beside its data; the target of the link is not written to."""
    KINDS[there](tmp_path / "file.partial")
    before = _content(tmp_path / "target")
    atomic.write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
    assert _content(tmp_path / "target") == before
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "file.partial", "target"}


def test_growing_data_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "x.partial").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="link"):
        atomic.open_unbuffered(tmp_path / "x.partial")
    assert (tmp_path / "target").read_bytes() == b"mine"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            atomic.write_bytes(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_remove_deletes_everything_except_failing_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        (path / "inner").mkdir(parents=True)
        (path / "inner" / "file").write_bytes(b"x")

    def stubborn(name: Any, **options: Any) -> None:
        if os.fspath(name).endswith("file") and Path(f"/proc/self/fd/{options['dir_fd']}").resolve().parent == paths[0]:
            raise OSError(errno.EIO, "Input/output error")
        unlink(name, **options)

    unlink = os.unlink
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", stubborn)
        with pytest.raises(OSError, match="Input/output"):
            atomic.remove(*paths)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_replaced_files_do_not_stay_if_the_folder_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: dict[Path, Path | None] = {tmp_path / name: tmp_path / f"{name}.partial" for name in ("x.idx", "x.bag")}
    for final, partial in now.items():
        final.write_bytes(b"old")
        assert partial is not None
        partial.write_bytes(b"new")

    present: list[list[str]] = []

    def refuse(path: Path) -> None:
        present.append(sorted(found.name for found in path.iterdir() if found.suffix != ".partial"))
        if "x.bag" in present[-1]:
            raise OSError(errno.EIO, "not synced")

    monkeypatch.setattr(atomic, "sync", refuse)
    with pytest.raises(OSError, match="not synced"):
        atomic.publish_together(now)
    assert present == [["x.idx"], ["x.bag", "x.idx"]]  # on the disk, the last name comes last
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x.idx": b"new", "x.bag": b"new"}


@loop_over("size", [3, 5000])
@loop_over("most", [None, 7000])
def test_parts_are_written_back_to_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, most: int | None
) -> None:
    """Short ones, long ones, more than one call takes, and a system that writes less than it is given."""
    parts = [bytes([n % 251]) * (size + n % 3) for n in range(2500)]
    if most is not None:
        monkeypatch.setattr(os, "pwritev", lambda file, some, at: os.pwrite(file, b"".join(some)[:most], at))
    with atomic.open_unbuffered(tmp_path / "x") as file:
        assert atomic.write_parts(file.fileno(), parts, 10) == sum(map(len, parts))
    assert (tmp_path / "x").read_bytes() == bytes(10) + b"".join(parts)


def test_a_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"content" * 1000)
    atomic.copy_file(tmp_path / "a", tmp_path / "b")
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    atomic.copy_file(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes() == b"content" * 1000
    with pytest.raises(FileExistsError):
        atomic.copy_file(tmp_path / "a", tmp_path / "b")
