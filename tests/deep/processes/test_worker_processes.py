"""Worker processes: order, memory, and every way in which a worker or its parent can end."""

from __future__ import annotations

import gc
import importlib
import logging
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import ChecksumError, WorkerError
from dataformats.loaders import watchdog
from dataformats.loaders.prefetcher import BatchTask, BuiltBatch, FixedTask
from dataformats.loaders.processes import pickling, protocol
from dataformats.loaders.processes.pool import WorkerPool
from dataformats.loaders.processes.prefetcher import ProcessPrefetcher
from dataformats.loaders.processes.status import WorkerStatus
from tests.loaders.fake_clock import pass_while
from tests.waiting import wait_until

METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="worker processes need a Unix system"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # Python 3.12, of a process with threads
]


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that workers import; multiprocessing passes them the path."""
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("makes_for_workers")


@pytest.fixture
def prefetcher() -> Iterator[Callable[..., ProcessPrefetcher]]:
    """Creates prefetchers and closes them; afterwards no process, thread, descriptor or file is left."""
    prefetchers: list[ProcessPrefetcher] = []

    def make(*arguments: Any, **options: Any) -> ProcessPrefetcher:
        prefetchers.append(ProcessPrefetcher(*arguments, **{"start_method": "fork", **options}))
        return prefetchers[-1]

    gc.collect()  # loaders of other tests end with their threads and processes
    before = threading.enumerate()
    yield make
    for each in prefetchers:
        each.close()
    gc.collect()
    assert [thread.name for thread in threading.enumerate() if thread not in before and not is_kept(thread)] == []
    assert multiprocessing.active_children() == []


def is_kept(thread: threading.Thread) -> bool:
    """Return True for descriptors that a process keeps until its end."""
    return thread.name.startswith("dataformats-batch")


def n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def rest(prefetcher: ProcessPrefetcher) -> list[BuiltBatch]:
    found = []
    try:
        while True:
            found.append(prefetcher.take())
    except StopIteration:
        return found


def check(made: list[BuiltBatch], first: int = 0, size: int = 4) -> None:
    for number, each in enumerate(made, first):
        expected = np.arange(number * size, number * size + size)
        np.testing.assert_array_equal(each.batch.positions, expected)
        np.testing.assert_array_equal(each.batch["value"], np.repeat(expected, 1000).reshape(size, 1000))


@pytest.mark.parametrize("method", [*METHODS, None])
def test_batches_come_in_order(makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str | None) -> None:
    subject = prefetcher(makes.Numbers(), 2, start_method=method)
    subject.start(makes.tasks(40))
    made = rest(subject)
    check(made)
    assert len(made) == 40
    for each in made:
        value = each.batch["value"]
        assert value.flags.writeable
        assert value.ctypes.data % 64 == 0
        value += 1
    assert os.getpid() not in {each.batch["worker"] for each in made}
    with pytest.raises(StopIteration):
        subject.take()
    subject.start(makes.tasks(3))
    check(rest(subject))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_after_close(makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str) -> None:
    before = 0
    for _ in range(2):  # the first time, multiprocessing starts its own processes, which stay
        before = n_descriptors()
        subject = prefetcher(makes.Numbers(), 2, start_method=method)
        subject.start(makes.tasks(10))
        kept = subject.take()
        workers = [process.pid for process in multiprocessing.active_children()]
        assert len(workers) == 2
        subject.close()
        subject.close()
        assert not any(alive(worker) for worker in workers)
        check([kept])
        del kept
    assert n_descriptors() <= before


def state_of(process: int | None) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(process: int | None) -> bool:
    return state_of(process) not in "ZX"


def busy_of(pool: WorkerPool) -> list[WorkerStatus]:
    return [status for status in pool.statuses if status.number is not None]


def rests(prefetcher: ProcessPrefetcher) -> None:
    """Wait until no worker has a task: a batch arrives a moment before its worker ends the task."""
    pool = prefetcher._pool
    assert pool is not None
    wait_until(lambda: not busy_of(pool))


def halt(process: int | None) -> None:
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    wait_until(lambda: state_of(process) == "T")


@pytest.mark.parametrize("method", METHODS)
def test_memory_has_no_name(makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str) -> None:
    """Memory without a name in /dev/shm, or elsewhere, cannot be left behind by any kind of death."""
    if not hasattr(os, "memfd_create"):
        pytest.skip("this system has no memfd")
    before = named_memory(os.getpid())  # locks of multiprocessing that other tests made lie there
    subject = prefetcher(makes.Numbers(), 2, start_method=method)
    subject.start(makes.tasks(20))
    kept = [subject.take() for _ in range(8)]
    for process in [os.getpid(), *(process.pid for process in multiprocessing.active_children())]:
        wait_until(partial(has_memfd, process))  # it may still be starting
        assert named_memory(process) <= before
    check(kept)


def has_memfd(process: int | None) -> bool:
    return "/memfd:dataformats (deleted)" in Path(f"/proc/{process}/maps").read_text()


def named_memory(process: int | None) -> set[str]:
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return {line[line.index("/dev/shm") :] for line in lines if "/dev/shm" in line}


def test_start_discards_earlier_batches(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Numbers(), 2, prefetch=3)
    for _ in range(5):
        subject.start(makes.tasks(20))
        check([subject.take() for _ in range(3)])
    check(rest(subject), first=3)
    for _ in range(150):
        subject.start(makes.tasks(20))
        time.sleep(0.001)
    check(rest(subject))
    assert len(multiprocessing.active_children()) == 2


def test_a_slow_task_delays_no_other(makes: Any, prefetcher: Callable[..., ProcessPrefetcher], tmp_path: Path) -> None:
    subject = prefetcher(makes.Follows(8, after=20, sign=str(tmp_path / "sign")), 2, prefetch=4)
    subject.start(makes.tasks(10))
    made = rest(subject)
    check(made)
    slow = made[2].batch["worker"]
    assert [each.batch["worker"] for each in made[3:6]].count(slow) == 0


def test_work_ahead_is_bounded(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    pulled = 0

    def counted() -> Iterator[BatchTask]:
        nonlocal pulled
        for task in makes.tasks(1000):
            pulled += 1
            yield task

    subject = prefetcher(makes.Numbers(), 2, prefetch=3)
    subject.start(counted())
    for n_taken in range(1, 20):
        subject.take()
        assert pulled <= n_taken + 2 * 3
    assert pulled == 19 + 2 * 3
    pulled = 0
    subject = prefetcher(makes.Numbers(), 2, prefetch=30, prefetch_bytes=100_000)  # 16 KB each
    subject.start(counted())
    for n_taken in range(1, 20):
        subject.take()
        assert pulled <= n_taken + 6
    pulled = 0
    subject = prefetcher(makes.Numbers(), 1, prefetch=30, prefetch_bytes=1)
    subject.start(counted())
    for n_taken in range(1, 20):
        subject.take()
        assert pulled <= n_taken + 1


def test_held_batches_stay_valid(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    before = n_descriptors()
    subject = prefetcher(makes.Numbers(), 2, prefetch=3)
    subject.start(makes.tasks(200))
    made = rest(subject)
    check(made)
    assert n_descriptors() - before < 60
    part = made[7].batch["value"][2]
    del made
    subject.start(makes.tasks(100))
    check(rest(subject))
    subject.close()
    assert part.tolist() == [30.0] * 1000


def test_batches_of_all_sizes(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Growing(), 2)
    numbers = [0, 300, 5, 299, 1, 1, 1, 1, 1, 1, 250, *range(0, 300, 7), *[3] * 20]
    subject.start(FixedTask(np.array([number]), np.array([number])) for number in numbers)
    for number, made in zip(numbers, rest(subject), strict=True):
        assert made.batch["value"].shape == (1, 1 + number * 500)
        assert (made.batch["value"] == number).all()


def test_a_task_of_any_size(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Numbers(1), 2, prefetch=8)
    subject.start(FixedTask(np.arange(n), np.arange(100_000)) for n in (3, 0, 50_000, 2))
    assert [len(made.batch.positions) for made in rest(subject)] == [3, 0, 50_000, 2]
    subject = prefetcher(makes.Numbers(1), 2, prefetch=300)
    subject.start(FixedTask(np.arange(n), np.arange(100)) for n in [400] * 600)  # more than the socket takes
    rests(subject)
    assert len(rest(subject)) == 600


def test_systems_without_memfd_or_pidfd(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefetching works without memfd, pidfds and sockets of sequenced packets."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(protocol, "LARGEST_TASK", 100)
    subject = prefetcher(makes.Numbers(), 2, prefetch=30)
    subject.start(makes.tasks(200))
    check(rest(subject))
    subject = prefetcher(makes.Acts("kill", at=42), 2)
    subject.start(makes.tasks(100))
    with pytest.raises(WorkerError, match=r"record 42 of 'a\.tfrecord'.*SIGKILL"):
        rest(subject)


@pytest.mark.parametrize(
    ("action", "said"),
    [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("leave", "exit code 3"), ("orphan", "SIGKILL")],
)
def test_dead_worker_raises_the_record_it_read(
    makes: Any,
    prefetcher: Callable[..., ProcessPrefetcher],
    action: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = tmp_path / "held"
    held.touch()
    monkeypatch.setenv("HOLDS_WHILE_THERE", str(held))
    subject = prefetcher(makes.Acts(action, at=42), 2)
    subject.start(makes.tasks(100))
    with pytest.raises(WorkerError, match=f"record 42 of 'a.tfrecord'.*{said}") as caught:
        rest(subject)
    assert caught.value.worker in (0, 1)
    held.unlink()  # until now, the process that it left behind has not ended
    assert multiprocessing.active_children() == []
    with pytest.raises(WorkerError, match="start"):
        subject.take()
    subject.start(makes.tasks(3))
    check(rest(subject))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_death_under_spawn_and_forkserver(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str
) -> None:
    subject = prefetcher(makes.Acts("leave", at=6), 2, start_method=method)
    subject.start(makes.tasks(100))
    with pytest.raises(
        WorkerError, match=r"worker [01] while reading record 6 of 'a.tfrecord': ended with exit code 3"
    ):
        rest(subject)


@pytest.mark.parametrize("action", ["hang", "stop"])
def test_hanging_worker_raises_the_record_it_read(
    makes: Any,
    prefetcher: Callable[..., ProcessPrefetcher],
    action: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(watchdog, "_WARN_AFTER_S", 0.1)
    subject = prefetcher(makes.Acts(action, at=42), 2, hang_timeout_s=0.2)

    def only_one_is_busy() -> bool:
        positions = [] if subject._pool is None else [status.position for status in busy_of(subject._pool)]
        return positions == [42]

    pass_while(only_one_is_busy, monkeypatch)
    subject.start(makes.tasks(100))
    with (
        caplog.at_level(logging.WARNING, "dataformats"),
        pytest.raises(WorkerError, match=r"record 42 of 'a\.tfrecord': hangs"),
    ):
        rest(subject)
    warnings = [record.getMessage() for record in caplog.records]
    assert len([warning for warning in warnings if "record 42 of 'a.tfrecord'" in warning]) == 1
    assert multiprocessing.active_children() == []


def test_stopped_idle_workers_raise_only_without_another(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    all_stopped = threading.Event()
    pass_while(all_stopped.is_set, monkeypatch)
    subject = prefetcher(makes.Numbers(), 2, hang_timeout_s=0.2)
    subject.start(makes.tasks(1))
    rest(subject)
    rests(subject)
    one, two = (process.pid for process in multiprocessing.active_children())
    halt(one)
    subject.start(makes.tasks(20))
    check(rest(subject))  # the other one does it all
    rests(subject)
    halt(two)
    all_stopped.set()
    subject.start(makes.tasks(20))
    with pytest.raises(WorkerError, match="takes none of the waiting tasks"):
        rest(subject)


def test_slow_progress_is_no_hang(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker goes on by a row between two looks at it, a tenth of a second later each."""
    looks, ticks = multiprocessing.get_context("fork").Value("q"), [0]
    subject = prefetcher(makes.Watched(looks), 1, hang_timeout_s=0.2)

    def goes_on() -> bool:
        looks.value += 1
        before = ticks.copy()
        ticks[:] = [] if subject._pool is None else [status.ticks for status in subject._pool.statuses]
        return ticks != before

    pass_while(goes_on, monkeypatch)
    subject.start(makes.tasks(2, 12))
    check(rest(subject), size=12)
    assert looks.value >= 2 * 12


def test_exceptions_arrive_as_they_are(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Acts("value_error", at=9), 2)
    subject.start(makes.tasks(10))
    check([subject.take(), subject.take()])
    with pytest.raises(ValueError, match="a bad thing") as caught:
        subject.take()
    (note,) = caught.value.__notes__
    assert "worker process" in note
    assert "in value_error" in note
    workers = multiprocessing.active_children()
    subject.start(makes.tasks(2))
    check(rest(subject))
    assert multiprocessing.active_children() == workers
    subject = prefetcher(makes.Acts("checksum_error", at=0), 2)
    subject.start(makes.tasks(1))
    with pytest.raises(ChecksumError) as damaged:
        subject.take()
    error = damaged.value
    assert (error.path, error.index, error.offset_bytes, error.stored) == ("a.tfrecord", 17, 96, 1)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("unpicklable_error", "UnpicklableError.*a bad thing"),
        ("stop_iteration", "StopIteration"),
        ("system_exit", "enough"),
    ],
)
def test_unpicklable_exceptions_become_worker_errors(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], action: str, said: str
) -> None:
    subject = prefetcher(makes.Acts(action, at=0), 2)
    subject.start(makes.tasks(1))
    with pytest.raises(WorkerError, match=said) as caught:
        subject.take()
    assert f"in {action}" in caught.value.__notes__[0]


def test_unpicklable_batches_raise_worker_errors(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Odd("lock"), 1)
    subject.start(makes.tasks(1))
    with pytest.raises(WorkerError, match=r"cannot be pickled.*worker_type='thread'"):
        subject.take()
    subject = prefetcher(makes.Odd("failed"), 1)
    subject.start(makes.tasks(1))
    (_, first), (_, second) = subject.take().failed
    assert isinstance(first, WorkerError)
    assert isinstance(second, ChecksumError)


def test_tensors(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    subject = prefetcher(makes.Odd("torch"), 1)
    subject.start(makes.tasks(1))
    made = subject.take()
    for name, expected in makes.tensors().items():
        found = made.batch["value"][name]
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
        found.zero_()  # its own memory, to be written


def test_no_memory_left(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Acts("no_memory", at=0), 1)
    subject.start(makes.tasks(1))
    with pytest.raises(OSError, match="bytes of shared memory for a batch"):
        subject.take()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_unpicklable_or_unloadable_builders_raise(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickling, "_cloudpickle", lambda: None)
    make = makes.Numbers()
    make.transform = lambda record: record
    subject = prefetcher(make, 1, start_method=method)
    with pytest.raises(WorkerError, match=r"lambda.*worker_type='thread'.*cloudpickle"):
        subject.start(makes.tasks(1))
    make.transform = makes.Cannot()
    subject.start(makes.tasks(1))
    with pytest.raises(WorkerError, match="cannot load the pickled source and functions: ImportError"):
        subject.take()


def test_fork_accepts_lambdas(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    make = makes.Numbers()
    make.row = lambda position: np.full(1000, position, np.float32)
    subject = prefetcher(make, 2, start_method="fork")
    subject.start(makes.tasks(5))
    check(rest(subject))


def test_cloudpickle_is_used_if_installed(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stands:  # stands in for cloudpickle, which the tests do not need
        @staticmethod
        def dumps(make: Any, protocol: int) -> bytes:
            del make.transform
            return pickle.dumps(make, protocol)

    monkeypatch.setattr(pickling, "_cloudpickle", lambda: Stands)
    make = makes.Numbers()
    make.transform = lambda record: record
    subject = prefetcher(make, 1, start_method="spawn")
    subject.start(makes.tasks(2))
    check(rest(subject))


@pytest.mark.parametrize("method", METHODS)
def test_sources_in_memory_are_shared(
    makes: Any, prefetcher: Callable[..., ProcessPrefetcher], method: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.ffr"
    with dataformats.create(path, "ffrecord", payload="msgpack") as writer:
        writer.append({"a": 1})
    make = makes.Odd("source")
    make.source = dataformats.open(path, payload="msgpack", cache="memory")
    assert make.source[0] == {"a": 1}
    data = bytearray(path.read_bytes())
    time_ns = path.stat().st_mtime_ns
    data[-1] ^= 1  # the file is damaged, the copy in memory is not
    path.write_bytes(data)
    os.utime(path, ns=(time_ns, time_ns))
    subject = prefetcher(make, 1, start_method=method)
    subject.start(makes.tasks(1))
    assert subject.take().batch["value"] == {"a": 1}


def test_a_forked_child_of_the_parent_is_harmless(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    subject = prefetcher(makes.Numbers(), 2)
    subject.start(makes.tasks(40))
    kept = [subject.take()]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        import multiprocessing.util

        try:
            os.close(writer)
            os.read(reader, 1)  # waits until the parent has released its batch and taken others
            check(kept)
            del kept
            subject.close()
            multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # what runs at exit
            os._exit(0)
        finally:
            os._exit(1)
    kept.clear()
    check([subject.take() for _ in range(20)], first=1)
    os.close(writer)
    os.close(reader)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(rest(subject), first=21)


def test_no_descriptor_left(makes: Any, prefetcher: Callable[..., ProcessPrefetcher]) -> None:
    import resource

    before = n_descriptors()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = sorted(set(range(1000)).difference(map(int, os.listdir("/proc/self/fd"))))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[12], limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot start 4 workers.*ulimit -n"):
            prefetcher(makes.Numbers(), 4).start(makes.tasks(10))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert n_descriptors() - before <= 2  # multiprocessing lets go of two later


def test_wrong_arguments(makes: Any) -> None:
    with pytest.raises(ValueError, match=r"start_method.*'threads'"):
        ProcessPrefetcher(makes.Numbers(), 1, start_method="threads")


SCRIPT = """
    import sys, time
    sys.path.insert(0, {here!r})
    import makes_for_workers as makes
    from dataformats.loaders.processes.prefetcher import ProcessPrefetcher

    def main():
        prefetcher = ProcessPrefetcher(makes.{make}, 2, start_method={method!r}, prefetch=2)
        prefetcher.start(makes.tasks(1000))
        prefetcher.take()
        import multiprocessing
        print(*(process.pid for process in multiprocessing.active_children()), flush=True)
        {then}

    {guard}main()
"""
GUARD = "if __name__ == '__main__': "


def script(tmp_path: Path, make: str, method: str, then: str, guard: str = GUARD) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(here=str(HERE), make=make, method=method, then=then, guard=guard))
    return [sys.executable, str(path)]


@contextmanager
def running(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a script in a new process group; return the process and its workers. It is killed at the end."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, [int(word) for word in process.stdout.readline().split()]
        finally:
            process.kill()


def wait_for_ends(workers: list[int]) -> None:
    """Wait for workers whose task would take ten minutes."""
    wait_until(lambda: not any(alive(worker) for worker in workers))


def ignores_ctrl_c(process: int) -> bool:
    (ignored,) = re.findall(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return bool(int(ignored, 16) >> signal.SIGINT - 1 & 1)


@pytest.mark.parametrize("method", METHODS)
def test_workers_end_with_a_killed_parent(tmp_path: Path, method: str) -> None:
    with running(script(tmp_path, "Acts('hang', at=9)", method, "time.sleep(600)")) as (process, workers):
        assert len(workers) == 2
        process.kill()
        wait_for_ends(workers)


@pytest.mark.parametrize(
    ("method", "then"),
    [
        ("fork", "time.sleep(600)"),
        ("spawn", "[prefetcher.take() for _ in range(9)]"),
        ("forkserver", "time.sleep(600)"),
        ("forkserver", "[prefetcher.take() for _ in range(9)]"),
    ],
)
def test_ctrl_c(tmp_path: Path, method: str, then: str) -> None:
    with running(script(tmp_path, "Acts('hang', at=9)", method, then)) as (process, workers):
        wait_until(lambda: all(ignores_ctrl_c(worker) for worker in workers))  # one may still be starting
        os.killpg(process.pid, signal.SIGINT)
        wait_for_ends(workers)
        process.wait(240)
        assert process.stderr is not None
        assert process.stderr.read().count("KeyboardInterrupt") == 1  # the parent's, and no worker's


@pytest.mark.parametrize(
    "then",
    [
        "pass",
        "del prefetcher; time.sleep(600)",
        "sys.exit(0)",
        "prefetcher = [prefetcher]; prefetcher.append(prefetcher)",
    ],
)
def test_workers_end_without_close(tmp_path: Path, then: str) -> None:
    with running(script(tmp_path, "Acts('hang', at=9)", "forkserver", then)) as (process, workers):
        wait_for_ends(workers)
        process.kill()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_without_a_guard(tmp_path: Path, method: str) -> None:
    command = script(tmp_path, "Numbers()", method, "print('no', flush=True)", guard="")
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "WorkerError" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr


# ---- by way of the Loader


@pytest.fixture(scope="module")
def digits() -> Any:
    path = Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord"
    return dataformats.open(str(path), spec={"image": "uint8[8,8]", "label": "int64"})


def epoch(loader: Any) -> list[Any]:
    return [(batch.positions, {name: np.asarray(column) for name, column in batch.items()}) for batch in loader]


def same(one: list[Any], other: list[Any]) -> None:
    for (positions, columns), (others, also) in zip(one, other, strict=True):
        np.testing.assert_array_equal(positions, others)
        assert columns.keys() == also.keys()
        for name in columns:
            np.testing.assert_array_equal(columns[name], also[name])


@pytest.mark.parametrize("method", METHODS)
def test_processes_and_threads_return_the_same(digits: Any, makes: Any, method: Any) -> None:
    options: dict[str, Any] = {"seed": 3, "transform": makes.noisy}
    others = set(multiprocessing.active_children())
    with (
        dataformats.Loader(digits, 100, **options) as threads,
        dataformats.Loader(digits, 100, worker_type="process", start_method=method, **options) as processes,
    ):
        same(epoch(processes), epoch(threads))
        state = processes.state_dict()
        second = epoch(processes)
        same(second, epoch(threads))
        processes.load_state_dict(state)
        same(epoch(processes), second)
        iterator = iter(processes)
        next(iterator)
        processes.skip(processes.position, processes.position + 150)
        assert next(iterator).positions[0] == state["position"] + len(digits) + 250
    assert set(multiprocessing.active_children()) <= others


@pytest.mark.parametrize("method", METHODS)
def test_workers_draw_other_numbers_of_numpy(digits: Any, makes: Any, method: Any) -> None:
    """Its global generator is copied by a fork."""
    options: dict[str, Any] = {"worker_type": "process", "start_method": method, "workers": 2, "prefetch": 1}
    with dataformats.Loader(digits, 10, transform=makes.drawn, **options) as loader:
        numbers = np.concatenate([np.asarray(batch["value"]) for batch in loader])
    assert len(set(numbers.tolist())) == len(digits)


@pytest.mark.skipif("forkserver" not in METHODS or not Path("/proc/self/maps").exists(), reason="it reads /proc")
def test_a_fork_server_imports_for_all_workers(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import os, pathlib
        import dataformats

        def server_has_numpy(number):
            return "_multiarray_umath" in pathlib.Path(f"/proc/{os.getppid()}/maps").read_text()

        if __name__ == "__main__":
            options = {"worker_type": "process", "start_method": "forkserver", "transform": server_has_numpy}
            with dataformats.Loader(list(range(8)), 4, **options) as loader:
                print([list(batch["value"]) for batch in loader])
        """)
    )
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.count("True") == 8, (done.stdout, done.stderr)


def test_a_transform_error_names_the_record(digits: Any, makes: Any) -> None:
    with dataformats.Loader(digits, 100, worker_type="process", transform=makes.fails, shuffle=False) as loader:
        for _ in range(2):
            with pytest.raises(ValueError, match="a bad thing") as caught:
                next(iter(loader))
            assert any("record 0 of" in note for note in caught.value.__notes__)
            assert any("in fails" in note for note in caught.value.__notes__)
        assert loader.position == 0


def test_loader_returns_tensors(digits: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    with dataformats.Loader(digits, 100, worker_type="process", start_method="fork", to="torch") as loader:
        batches = list(loader)
    with dataformats.Loader(digits, 100) as threads:
        for batch, other in zip(batches, threads, strict=True):
            assert torch.equal(batch["image"], torch.from_numpy(other["image"]))
            assert batch["image"].dtype == torch.uint8


def test_a_program_from_standard_input() -> None:
    code = """if True:
        import dataformats
        loader = dataformats.Loader([1, 2, 3], 2, worker_type="process", start_method="spawn")
        next(iter(loader))
    """
    done = subprocess.run([sys.executable], input=code, capture_output=True, text=True, timeout=240, check=False)
    assert "spawn imports the program again, and '<stdin>' is not a file" in done.stderr


@pytest.mark.skipif("forkserver" not in METHODS, reason="the system has no fork server")
def test_a_folder_for_temporary_files_with_a_long_path(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import dataformats

        if __name__ == "__main__":
            loader = dataformats.Loader([1, 2, 3], 3, workers=2, worker_type="process", start_method="forkserver")
            print(len(next(iter(loader))["value"]))
        """)
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        env=os.environ | {"TMPDIR": str(long)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    too_long = "OSError: cannot start 2 workers: AF_UNIX path too long. Set TMPDIR to a shorter path" in done.stderr
    assert too_long or done.stdout == "3\n", done.stderr  # later Pythons take another folder


@pytest.mark.skipif("forkserver" not in METHODS, reason="the system has no fork server")
def test_a_child_of_a_process_with_a_fork_server(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import multiprocessing, os
        import dataformats

        if __name__ == "__main__":
            process = multiprocessing.get_context("forkserver").Process(target=print)
            process.start()
            process.join()
            if (child := os.fork()) == 0:
                for method in ("forkserver", "spawn", "fork"):
                    loader = dataformats.Loader(list(range(9)), 4, worker_type="process", start_method=method)
                    try:
                        print(method, len(next(iter(loader)).positions), flush=True)
                    except dataformats.WorkerError as error:
                        print(method, error, flush=True)
                    loader.close()
                os._exit(0)
            os.waitpid(child, 0)
        """)
    )
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=240, check=False)
    server, spawn, fork = done.stdout.split("\n")[1:4]
    assert "the fork server belongs to the process that this one was forked from. Pass start_method='spawn'" in server
    assert (spawn, fork) == ("spawn 4", "fork 4"), done.stderr
