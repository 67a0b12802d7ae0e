"""Blocks in shared memory: requested once by all processes of a node, private, and deleted by the last of them."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dataformats.storage.remote import block_cache, node_folder
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.node_folder import NodeFolder, local_job
from tests.storage.remote.slow_files import SlowFiles
from tests.storage.remote.test_block_cache import read
from tests.waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="the system has no /dev/shm")

BLOCK = 32 * 2**10
DATA = np.random.default_rng(3).bytes(60 * BLOCK + 12_345)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /dev/shm."""
    path = tmp_path / "shm"
    path.mkdir()
    monkeypatch.setattr(node_folder, "_MEMORY", path)
    monkeypatch.setattr(block_cache, "_PATIENCE_S", math.inf)  # a process that waits for another one in vain hangs
    return path


def file_in(folder: Path, delay_s: float = 0.0) -> tuple[SlowFiles, Any]:
    (folder / "data").write_bytes(DATA)
    store = SlowFiles(folder / "log", delay_s)
    return store, store.file(folder / "data")


def started(work: Callable[[], object]) -> Any:
    """Return a forked process that does the work, and fails if its result is False."""
    child = FORK.Process(target=lambda: os._exit(0) if work() is not False else os._exit(1))
    child.start()
    return child


def ended(*children: Any) -> bool:
    for child in children:
        child.join(LIMIT_S)
    return [child.exitcode for child in children] == [0] * len(children)


def test_processes_request_each_block_once(memory: Path, tmp_path: Path) -> None:
    store, file = file_in(tmp_path, 0.02)

    def work(seed: int) -> bool:
        cache, random = BlockCache(2**23, BLOCK, "one"), np.random.default_rng(seed)
        for _ in range(40):
            starts = random.integers(0, len(DATA), 5).tolist()
            rows = [(file, at, min(50_000, len(DATA) - at)) for at in starts]
            if read(cache, *rows) != [DATA[at : at + 50_000] for at in starts]:
                return False
        return read(cache, (file, 0, len(DATA))) == [DATA] and not cache._n_bytes

    stays = BlockCache(2**23, BLOCK, "one")  # if the first process ends before the others begin
    stays._open()
    assert ended(*[started(partial(work, seed)) for seed in range(4)])
    assert store.n_bytes == len(DATA)


def test_processes_fetch_each_block_once(memory: Path, tmp_path: Path) -> None:
    store, file = file_in(tmp_path, 0.02)

    def work() -> bool:
        cache = BlockCache(2**23, BLOCK, "one")
        cache.fetch([(file, 0, len(DATA))])
        is_empty = not cache._n_bytes
        file.fs.delay_s = 60  # nothing is requested
        return is_empty and read(cache, (file, 0, len(DATA))) == [DATA]

    stays = BlockCache(2**23, BLOCK, "one")  # if the first process ends before the others begin
    stays._open()
    assert ended(*[started(work) for _ in range(4)])
    assert store.n_bytes == len(DATA)


def test_ranks_share_and_the_last_one_deletes(memory: Path, tmp_path: Path) -> None:
    store, file = file_in(tmp_path)
    caches = [BlockCache(2**23, BLOCK, "one") for _ in range(2)]
    assert [read(cache, (file, 5, 10)) for cache in caches] == [[DATA[5:15]]] * 2
    assert store.n_bytes == BLOCK
    (folder,) = memory.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    caches.pop()
    assert list(memory.iterdir()) == [folder]
    caches.pop()
    assert list(memory.iterdir()) == []


def test_pickles_for_workers_share(memory: Path, tmp_path: Path) -> None:
    """Others do not."""
    store, file = file_in(tmp_path)
    cache = BlockCache(2**23, BLOCK)
    assert read(pickle.loads(pickle.dumps(cache)), (file, 5, 10)) == [DATA[5:15]]
    assert list(memory.iterdir()) == []
    child = multiprocessing.get_context("spawn").Process(target=_read, args=(cache, file, str(memory)))
    child.start()
    assert len(list(memory.iterdir())) == 1
    assert ended(child)
    assert store.n_bytes == 2 * BLOCK
    assert read(cache, (file, 15, 10)) == [DATA[15:25]]
    assert store.n_bytes == 2 * BLOCK
    del cache
    assert list(memory.iterdir()) == []


def _read(cache: BlockCache, file: Any, memory: str) -> None:
    node_folder._MEMORY = Path(memory)
    os._exit(0 if read(cache, (file, 5, 10)) == [DATA[5:15]] else 1)


def test_killed_process_releases_its_claims(memory: Path, tmp_path: Path) -> None:
    slow, file = file_in(tmp_path, 60)
    child = started(lambda: read(BlockCache(2**23, BLOCK, "one"), (file, 0, 200_000)))
    wait_until(slow.log.exists)
    child.kill()
    child.join()
    file.fs.delay_s = 0
    assert read(BlockCache(2**23, BLOCK, "one"), (file, 0, 200_000)) == [DATA[:200_000]]


def test_stopped_process_is_not_waited_for_forever(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(block_cache, "_PATIENCE_S", 0.5)
    slow, file = file_in(tmp_path, 60)
    child = started(lambda: read(BlockCache(2**23, BLOCK, "one"), (file, 0, 300_000)))
    wait_until(slow.log.exists)
    os.kill(child.pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(block_cache, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
        cache, file.fs.delay_s = BlockCache(2**23, BLOCK, "one"), 0
        assert read(cache, (file, 0, 10)) == [DATA[:10]]
        assert 0.5 < now_s < 0.6
        waited_s = now_s
        for at in range(1, 9):  # not waited for again
            assert read(cache, (file, at * BLOCK, 10)) == [DATA[at * BLOCK :][:10]]
        assert now_s == waited_s
    finally:
        child.kill()
        child.join()


def test_leftovers_of_killed_processes_are_deleted(memory: Path, tmp_path: Path) -> None:
    _, file = file_in(tmp_path)
    for name in ("one", "two"):
        child = started(partial(_die_with, name, file))
        child.join()
    assert len(list(memory.iterdir())) == 1  # the second one deleted the first
    cache = BlockCache(2**23, BLOCK, "two")
    assert read(cache, (file, 0, 10)) == [DATA[:10]]
    del cache
    assert list(memory.iterdir()) == []


def _die_with(name: str, file: Any) -> None:
    cache = BlockCache(2**23, BLOCK, name)
    read(cache, (file, 0, 10))
    os.kill(os.getpid(), signal.SIGKILL)


def test_forked_child_reads_and_leaves_the_folder(memory: Path, tmp_path: Path) -> None:
    store, file = file_in(tmp_path)
    caches = [BlockCache(2**23, BLOCK, "one")]
    read(caches[0], (file, 0, 10))
    with caches[0]._lock:  # another thread may hold it when the process forks
        child = started(lambda: read(caches[0], (file, 0, 10), (file, BLOCK, 10)) == [DATA[:10], DATA[BLOCK:][:10]])
    assert ended(child)
    assert read(caches[0], (file, BLOCK, 10)) == [DATA[BLOCK:][:10]]
    assert store.n_bytes == 2 * BLOCK
    other = NodeFolder("other", 0)  # deletes unused folders
    assert len(list(memory.iterdir())) == 2
    caches.clear()
    del other
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("planted", ["open", "link", "file", "foreign"])
def test_planted_folders_are_refused(planted: str, memory: Path, tmp_path: Path) -> None:
    store, file = file_in(tmp_path)
    path = NodeFolder(f"one {2**23} {BLOCK}", 0).path
    assert not path.exists()
    target = tmp_path / "target"
    target.mkdir(0o700)
    if planted == "open":
        path.mkdir()
        path.chmod(0o755)
    elif planted == "link":
        path.symlink_to(target)
    elif planted == "file":
        path.touch()
    else:
        path.mkdir(0o700)
        if os.geteuid():
            pytest.skip("only the superuser can give a folder to another user")
        os.chown(path, 12345, 12345)
    cache = BlockCache(2**23, BLOCK, "one")
    for _ in range(2):
        assert read(cache, (file, 5, 10)) == [DATA[5:15]]
    assert store.n_bytes == BLOCK
    assert not any(target.iterdir())


@pytest.mark.parametrize("room", [0, 2**16])
def test_full_memory_is_no_error(room: int, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that it has no room for are kept by the process."""
    store, file = file_in(tmp_path)
    pwrite, left = os.pwrite, [room]

    def full(descriptor: int, data: Any, at: int) -> int:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(28, "no space left")
        return pwrite(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", full)
    cache = BlockCache(2**23, BLOCK, "one")
    for _ in range(2):
        assert read(cache, (file, 0, len(DATA))) == [DATA]
    assert store.n_bytes == len(DATA)


def test_small_memory_is_not_used(memory: Path, tmp_path: Path) -> None:
    _, file = file_in(tmp_path)
    cache = BlockCache(2**60, BLOCK, "one")
    assert read(cache, (file, 5, 10)) == [DATA[5:15]]
    assert list(memory.iterdir()) == []


def test_the_job_of_local_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*node_folder.LOCAL_SIZES, *node_folder._JOBS):
        monkeypatch.delenv(name, raising=False)
    assert local_job() is None
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "4(x2)")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    of_slurm = local_job()
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert None is not of_slurm != local_job() is not None
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert local_job() is None


def test_end_of_the_program_deletes() -> None:
    name = f"test-{os.getpid()}"
    path = NodeFolder(name, 0).path
    assert not path.exists()
    program = f"""
from dataformats.storage.remote.node_folder import NodeFolder
folder = NodeFolder({name!r}, 0)
assert folder.path.exists()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert not path.exists()
