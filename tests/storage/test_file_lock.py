"""Locks on files and folders: exclusive, gone with the process, and on the file that the path names."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import warnings
from pathlib import Path

import pytest

from dataformats.storage import file_lock
from dataformats.storage.file_lock import FileLock


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    for path, create in ((tmp_path / "file", True), (tmp_path, False)):
        first = FileLock(path, create=create)
        with pytest.raises(BlockingIOError, match=path.name):
            FileLock(path, create=create)
        first.release()
        first.release()
        second = FileLock(path, create=create)
        assert second.is_current
        assert second.is_exclusive
        assert not first.is_current
        second.release()


def test_shared_locks_refuse_exclusive_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "_PATIENCE_S", 0.0)
    path = tmp_path / "file"
    first = FileLock(path, create=True)
    with pytest.raises(BlockingIOError):
        FileLock(path, create=True, shared=True)
    first.share()
    second = FileLock(path, create=True, shared=True)
    first.release()
    with pytest.raises(BlockingIOError):
        FileLock(path, create=True)
    second.release()
    FileLock(path, create=True).release()


def test_a_shared_lock_waits_for_an_exclusive_one(tmp_path: Path) -> None:
    first = FileLock(tmp_path)
    timer = threading.Timer(0.05, first.release)
    timer.start()
    second = FileLock(tmp_path, shared=True)
    assert second.is_current
    second.release()
    timer.join()


def test_creating_lock_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="link"):
        FileLock(tmp_path / "link", create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_dropped_lock_is_released(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        FileLock(tmp_path)
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "missing")
    assert len(os.listdir("/proc/self/fd")) == before


def test_replaced_file_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process deletes the file between opening and locking: the new file is locked, not the deleted one."""
    path = tmp_path / "file"
    flock = fcntl.flock
    deleted: list[int] = []

    def delayed(descriptor: int, operation: int) -> None:
        if operation != fcntl.LOCK_UN and len(deleted) < 2:
            path.unlink()
            deleted.append(os.fstat(descriptor).st_ino)
        flock(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", delayed)
        lock = FileLock(path, create=True)
    assert len(deleted) == 2
    assert lock.is_current
    with pytest.raises(BlockingIOError):
        FileLock(path)
    path.unlink()
    assert not lock.is_current


def test_a_forked_child_has_no_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "file", create=True)
    ready, done = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if not child:
        os.write(ready[1], b"x" if lock.descriptor < 0 else b"-")
        os.read(done[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"x"
    with pytest.raises(BlockingIOError):
        FileLock(tmp_path / "file")
    lock.release()
    FileLock(tmp_path / "file").release()
    os.write(done[1], b"x")
    os.waitpid(child, 0)
    for descriptor in (*ready, *done):
        os.close(descriptor)


def test_a_file_system_without_locks_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    file_lock._report_unsupported.cache_clear()
    monkeypatch.setattr(fcntl, "flock", unsupported)
    locks = [FileLock(tmp_path), FileLock(tmp_path)]
    assert [lock.is_exclusive for lock in locks] == [False, False]
    assert len(caplog.records) == 1
    assert "two writers" in caplog.text
    for lock in locks:
        lock.release()
    file_lock._report_unsupported.cache_clear()


def test_a_system_without_flock_locks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file_lock._report_unsupported.cache_clear()
    monkeypatch.setattr(file_lock, "fcntl", None)
    first, second = FileLock(tmp_path), FileLock(tmp_path)
    assert not first.is_exclusive
    first.release()
    second.release()


def test_other_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", broken)
        with pytest.raises(OSError, match="Input/output"):
            FileLock(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
