"""Descriptors: few are kept open, none of files that are no longer used, and a shortage is waited for or explained."""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataformats
from dataformats.storage import descriptors
from dataformats.storage.descriptors import DESCRIPTORS, open_patiently
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.testing.loop_over import loop_over

resource = pytest.importorskip("resource")
FDS = Path("/proc/self/fd")
needs_proc = pytest.mark.skipif(not FDS.is_dir(), reason="descriptors are counted in /proc")

FORMATS = {
    "x.tfrecord": "tfrecord",
    "x.tfrecord.gz": "tfrecord",
    "x.ofrecord": "ofrecord",
    "x.ffr": "ffrecord",
    "x.syr": "syrah",
    "x": "granular",
}


def opened(folder: Path) -> list[str]:
    """Return the names of the files of a folder that this process has open."""
    names = [os.readlink(link) for link in FDS.iterdir() if link.is_symlink()]
    return sorted(name for name in names if name.startswith(str(folder.resolve())))


def written(folder: Path, n: int) -> list[LocalFile]:
    for i in range(n):
        (folder / str(i)).write_bytes(bytes([i] * 3))
    return [LocalFile(folder / str(i)) for i in range(n)]


# ---- descriptors that stay open


@needs_proc
@loop_over("io", ["auto", "mmap"])
@loop_over("name", FORMATS)
def test_nothing_stays_open_behind_a_source(name: str, io: str, tmp_path: Path) -> None:
    if io == "mmap" and name.endswith("gz"):
        return  # decompressed data cannot be mapped
    with dataformats.create(tmp_path / name, FORMATS[name], spec={"id": "int64", "text": "bytes"}) as writer:
        writer.extend({"id": i, "text": b"x" * (i + 1)} for i in range(20))
    gc.collect()
    with dataformats.open(tmp_path / name, io=io) as source:
        assert [source[3]["id"], len(list(source)), len(source.fingerprint)] == [3, 20, 32]
        assert opened(tmp_path)
    assert not opened(tmp_path)
    assert source[2]["id"] == 2
    assert opened(tmp_path)
    del source
    assert not opened(tmp_path)


@needs_proc
def test_nothing_stays_open_behind_an_error(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", "ffrecord") as writer:
        writer.append(b"one")
    with pytest.raises(dataformats.FormatError):
        dataformats.open(tmp_path / "x.ffr", format="syrah")
    assert not opened(tmp_path)


@needs_proc
def test_borrowed_file_stays_open(tmp_path: Path) -> None:
    (file,) = written(tmp_path, 1)
    (descriptor,) = DESCRIPTORS.borrow([file])
    file.release()
    DESCRIPTORS.close_spare()
    assert os.pread(descriptor, 1, 0) == b"\0"
    DESCRIPTORS.give_back([file])
    file.release()
    assert not opened(tmp_path)


# ---- a shortage


@pytest.fixture
def free(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:  # pytest needs a descriptor for `tmp_path`
    """The process may open a few more files only."""
    gc.collect()
    DESCRIPTORS.close_spare()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.dup(0) for _ in range(20)]  # makes the next numbers larger
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 30, limits[1]))
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        for descriptor in held[len(held) - request.param :]:
            os.close(descriptor)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for descriptor in held[: len(held) - request.param]:
        os.close(descriptor)


@pytest.mark.parametrize("free", [1, 3, 20], indirect=True)
@pytest.mark.usefixtures("free")
def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    files = written(tmp_path, 50)
    assert [file.pread(1, 1)[0] for file in files] == list(range(50))
    with (tmp_path / "another").open("wb"):  # one is left to the rest of the process
        pass
    threads = [threading.Thread(target=lambda: [file.pread(1, 1) for file in files]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(LocalFolder(tmp_path).names()) == 51


@pytest.mark.parametrize("free", [0], indirect=True)
@pytest.mark.usefixtures("free")
def test_no_descriptor_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_WAITS_S", (0, 0.01))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with pytest.raises(OSError, match=rf"may open {limit}\. Raise the limit \(ulimit -n\)"):
        LocalFolder(tmp_path).names()


def test_a_shortage_is_waited_for() -> None:
    tries: list[float] = []

    def third_time() -> str:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return "opened"

    assert open_patiently(third_time) == "opened"
    assert len(tries) == 3


def test_other_errors_are_not_waited_for() -> None:
    tries: list[None] = []

    def fails() -> None:
        tries.append(None)
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        open_patiently(fails)
    assert len(tries) == 1


def test_several_files_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that hold some and wait for more would wait for each other."""
    files = written(tmp_path, 5)
    tries: list[str] = []

    def none_left(file: LocalFile) -> int:
        tries.append(file.name)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(LocalFile, "open_descriptor", none_left)
    with pytest.raises(OSError, match="Too many"):
        DESCRIPTORS.borrow(files)
    assert tries == [files[0].name] * 2
