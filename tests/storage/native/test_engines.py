"""Engines: each reads the correct bytes for any request, also if the machine forbids some system calls."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataformats.kernels import implementation
from dataformats.kernels.engines import engine_open, engine_read
from dataformats.storage.native import engines
from dataformats.storage.native.engines import NAMES, describe, engine
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

SIZE = 3_000_017  # no multiple of a block
needs_c = pytest.mark.skipif(implementation() != "native", reason="engines are in C, and the kernels run in Python")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of noise."""
    path = tmp_path_factory.mktemp("engines") / "noise"
    with path.open("wb") as file:
        file.write(np.random.default_rng(5).bytes(SIZE))
        file.flush()
        os.fdatasync(file.fileno())  # pages that are not written yet cannot be dropped
    return path


@pytest.fixture(scope="module")
def content(path: Path) -> NDArray[np.uint8]:
    return np.frombuffer(path.read_bytes(), np.uint8)


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def drop(fd: int) -> None:
    """Make the system drop its cached pages of a file."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def check(name: str, fd: int, content: NDArray[np.uint8], offsets: Any, lengths: Any, *, cold: bool = False) -> None:
    """Read stretches back to back into one buffer, and compare all of it."""
    offsets, lengths = np.asarray(offsets, np.int64), np.asarray(lengths, np.int64)
    places = np.cumsum(lengths) - lengths
    buffer = np.full(int(lengths.sum()), 0xAA, np.uint8)
    if cold:
        drop(fd)
    done = engine(name).read(np.full(len(offsets), fd), offsets, lengths, places, buffer.data)
    expected = np.full_like(buffer, 0xAA)
    for offset, length, place in zip(offsets, lengths, places, strict=True):
        there = content[offset : offset + length]
        expected[place : place + len(there)] = there
    assert done.tolist() == np.clip(len(content) - offsets, 0, lengths).tolist()
    assert np.array_equal(buffer, expected)


@pytest.mark.parametrize("name", NAMES)
@loop_over("cold", [True, False])
@loop_over("n, longest", [(1, 1), (64, 1024), (5000, 700), (300, 200_000), (3, SIZE)])
def test_random_stretches(name: str, fd: int, content: NDArray[np.uint8], n: int, longest: int, cold: bool) -> None:
    """They overlap, repeat, are empty, and reach past the end."""
    random = np.random.default_rng(n)
    check(name, fd, content, random.integers(0, SIZE + longest, n), random.integers(0, longest + 1, n), cold=cold)


@pytest.mark.parametrize("name", NAMES)
@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=40),
    st.booleans(),
    st.integers(SIZE - 9000, SIZE),
)
@settings(max_examples=share(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_stretches(
    name: str, fd: int, content: NDArray[np.uint8], rows: list[tuple[int, int]], cold: bool, base: int
) -> None:
    offsets, lengths = [base + row[0] for row in rows], [row[1] for row in rows]
    check(name, fd, content, offsets, lengths, cold=cold)


@pytest.mark.parametrize("name", NAMES)
def test_consecutive_extents_are_read(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    """They are one read of many parts, of more than the system takes at once, also over the end of the file."""
    lengths = np.random.default_rng(1).integers(0, 2000, 4000)
    offsets = np.cumsum(lengths) - lengths + 13
    check(name, fd, content, offsets, lengths, cold=True)
    check(name, fd, content, offsets, lengths)


@pytest.mark.parametrize("name", NAMES)
def test_half_of_a_stretch_in_memory(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    for warm in (1000, 100_000, 2_000_000):
        drop(fd)
        os.pread(fd, warm, 500_000)
        check(name, fd, content, [499_000, 0, 1_400_000, 600_000], [900_001, 700_000, 1_600_000, 1])


@pytest.mark.parametrize("name", NAMES)
def test_engines_read_truncated_files(name: str, tmp_path: Path, content: NDArray[np.uint8]) -> None:
    copy = tmp_path / "copy"
    for rest in (0, 1, 4096, 70_001):
        copy.write_bytes(content.tobytes())
        with copy.open("r+b") as file:
            engine(name).read([file.fileno()], [0], [10], [0], memoryview(bytearray(10)))
            file.truncate(rest)
            check(name, file.fileno(), content[:rest], [0, 50_000, 1, 69_000], [SIZE, 30_000, 0, 2000])


@loop_over("name", NAMES)
def test_many_files(name: str, tmp_path: Path) -> None:
    """More than an engine keeps track of."""
    files = [tmp_path / f"file-{i}" for i in range(150)]
    for i, file in enumerate(files):
        file.write_bytes(bytes([i]) * (100 + i))
    fds = [os.open(file, os.O_RDONLY) for file in files]
    order = np.random.default_rng(2).integers(0, len(files), 1000)
    buffer = np.zeros(50 * len(order), np.uint8)
    offsets = order % 50
    try:
        for _ in range(2):
            engine(name).read(
                np.array(fds)[order], offsets, np.full(len(order), 50), np.arange(len(order)) * 50, buffer.data
            )
            assert np.array_equal(buffer, np.repeat(order, 50))
    finally:
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_read(name: str, fd: int) -> None:
    assert engine(name).read([], [], [], [], memoryview(bytearray(0))).tolist() == []
    assert engine(name).read([fd], [5], [0], [0], memoryview(bytearray(0))).tolist() == [0]


@pytest.mark.parametrize("name", NAMES)
def test_offsets_close_to_the_largest(name: str, fd: int) -> None:
    """Nothing overflows: sanitizers watch this. File systems differ about such offsets."""
    offsets, places = [2**63 - 200_000, 2**63 - 101, 0], [0, 100, 200]
    with contextlib.suppress(OSError):
        done = engine(name).read([fd] * 3, offsets, [100] * 3, places, memoryview(bytearray(300)))
        assert done.tolist() == [0, 0, 100]


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_the_system(name: str, path: Path, fd: int, content: NDArray[np.uint8]) -> None:
    closed, folder, writing = 12_345, os.open(path.parent, os.O_RDONLY), os.open(path, os.O_WRONLY)
    pipe = os.pipe()
    try:
        cases = {closed: errno.EBADF, folder: errno.EISDIR, -1: errno.EBADF}
        if name != "uring":  # io_uring would wait for bytes: storage uses it for regular files alone
            cases[pipe[0]] = errno.ESPIPE
        if name != "libaio":  # libaio opens the file again
            cases[writing] = errno.EBADF
        for wrong, number in cases.items():
            buffer = bytearray(40)
            with pytest.raises(OSError, match=os.strerror(number)) as caught:
                engine(name).read([fd, wrong, fd], [7, 9, 100], [10, 10, 10], [0, 10, 20], memoryview(buffer))
            assert caught.value.errno == number
    finally:
        for each in (folder, writing, *pipe):
            os.close(each)
    check(name, fd, content, [1], [1])


@needs_c
@pytest.mark.parametrize("name", NAMES)
def test_one_failure_spares_the_others(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    buffer = bytearray(30)
    with pytest.raises(OSError, match="Bad file"):
        engine(name).read([fd, -1, fd], [7, 9, 100], [10, 10, 10], [0, 10, 20], memoryview(buffer))
    assert buffer == content[7:17].tobytes() + bytes(10) + content[100:110].tobytes()


@needs_c
@pytest.mark.parametrize(
    ("offset", "length", "place", "message"),
    [(0, 11, 0, "place"), (0, -1, 0, "place"), (0, 5, 6, "place"), (0, 1, -1, "place"), (0, 2**62, 2**62, "place")],
)
def test_places_outside_the_buffer(fd: int, offset: int, length: int, place: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine_read(None, [fd], [offset], [length], [place], bytearray(10))


@needs_c
def test_arguments_of_the_wrong_kind(fd: int) -> None:
    with pytest.raises(ValueError, match="equally long"):
        engine_read(None, [fd], [0, 1], [1, 1], [0, 0], bytearray(10))
    with pytest.raises((TypeError, BufferError)):
        engine_read(None, [fd], [0], [1], [0], bytes(10))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="PyCapsule"):
        engine_read(object(), [fd], [0], [1], [0], bytearray(10))
    with pytest.raises(OSError, match="Invalid argument"):
        engine_read(None, [fd], [-1], [1], [0], bytearray(10))
    with pytest.raises(OSError, match="no engine of that name"):
        engine_open("fast")


@pytest.mark.parametrize("name", NAMES)
def test_many_threads_at_once(name: str, path: Path, content: NDArray[np.uint8]) -> None:
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            for n in (64, 300, 3):
                longest = 60_000 // n
                check(
                    name,
                    descriptor,
                    content,
                    random.integers(0, SIZE, n),
                    random.integers(0, longest, n),
                    cold=seed % 2 == 0,
                )
        except BaseException as error:
            failures.append(error)
        finally:
            os.close(descriptor)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@needs_c
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads and descriptors in /proc")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_stays_after_close(name: str, fd: int) -> None:
    def held() -> tuple[set[str], int]:
        return set(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    gc.collect()  # garbage of other tests holds descriptors
    threads, n_files = held()
    for _ in range(3):
        try:
            opened = engine_open(name)
        except OSError:
            pytest.skip(f"{name} is forbidden here")
        drop(fd)
        n = 40
        engine_read(opened, [fd] * n, range(0, n * 70_000, 70_000), [60_000] * n, [0] * n, bytearray(60_000))
        del opened
    until = time.monotonic() + 60
    while not held()[0] <= threads and time.monotonic() < until:  # one that was joined is listed for a moment
        time.sleep(0.01)
    assert held()[0] <= threads
    assert held()[1] <= n_files


# ---- processes


def in_child(work: Any) -> int:
    """Run it in a forked child; return the exit status, 0 if it raised nothing."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_after_a_fork(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    n = 300
    offsets, lengths = np.arange(n) * 9001, np.full(n, 9000)
    check(name, fd, content, offsets, lengths, cold=True)
    assert in_child(lambda: check(name, fd, content, offsets, lengths, cold=True)) == 0
    check(name, fd, content, offsets, lengths, cold=True)


@needs_c
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_an_engine_of_the_parent_is_not_touched(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    """An engine kept over a fork uses plain reads, and closes nothing of the parent's."""
    held = [engine(name).capsule]

    def read() -> None:
        buffer = bytearray(100_000)
        engine_read(held[0], [fd] * 2, [5, 500_000], [50_000] * 2, [0, 50_000], buffer)
        assert buffer == content[5:50_005].tobytes() + content[500_000:550_000].tobytes()
        held.clear()

    assert in_child(read) == 0
    check(name, fd, content, [1, 1_000_000], [70_000, 70_000], cold=True)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_fork_while_others_read(name: str, fd: int, content: NDArray[np.uint8]) -> None:
    n, stop = 200, threading.Event()
    offsets, lengths = np.arange(n) * 9001, np.full(n, 9000)

    def read() -> None:
        while not stop.is_set():
            check(name, fd, content, offsets, lengths, cold=True)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: check(name, fd, content, offsets, lengths)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ---- in Python


def test_one_of_each_name() -> None:
    for name in NAMES:
        assert engine(name) is engine(name)
        assert pickle.loads(pickle.dumps(engine(name))) is engine(name)
        assert repr(engine(name)) == f"Engine({name!r})"
    with pytest.raises(ValueError, match="expected one of auto, uring, libaio, threads, found 'fast'"):
        engine("fast")


def test_describe_lists_the_engines() -> None:
    facts = describe()
    assert list(facts) == [*NAMES, "mmap", "fsspec"]
    assert facts["auto"]["available"]
    for name in NAMES[1:]:
        assert facts[name]["available"] == (facts[name]["reason"] is None), facts[name]
        assert facts[name]["available"] == (facts[name]["cold"] == name)
    if implementation() == "native":
        assert facts["auto"]["cold"] == ("uring" if facts["uring"]["available"] else "advised reads")
    else:
        assert facts["auto"]["cold"] == "plain reads"
        assert "DATAFORMATS_KERNELS=reference" in facts["threads"]["reason"]


@needs_c
@pytest.mark.parametrize("forbidden", [("uring",), ("uring", "threads")])
def test_a_refused_engine_is_logged_once(
    forbidden: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fd: int,
    content: NDArray[np.uint8],
) -> None:
    def refusing(name: str) -> Any:
        if name in forbidden:
            raise OSError(errno.EPERM, "io_uring_setup: Operation not permitted")
        return engine_open(name)

    monkeypatch.setattr(engines, "engine_open", refusing)
    refused = engines.Engine("uring")
    monkeypatch.setitem(engines._ENGINES, "uring", refused)
    with caplog.at_level(logging.WARNING, "dataformats"):
        for _ in range(2):
            check("uring", fd, content, [3], [5])
            refused._forget()
    instead = "plain reads" if "threads" in forbidden else "threads"
    assert [record.getMessage() for record in caplog.records] == [
        f"io='uring' does not work here (io_uring_setup: Operation not permitted): {instead} instead"
    ]
    facts = describe()["uring"]
    assert facts == {
        "available": False,
        "reason": "io_uring_setup: Operation not permitted",
        "note": f"not available; {instead} instead",
        "cold": instead,
    }
