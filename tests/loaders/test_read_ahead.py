"""Windows of remote records are fetched while the ones before them are read."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats import Loader
from dataformats.interfaces import FetchesRecords
from dataformats.loaders import read_ahead
from dataformats.loaders.plan import Plan
from dataformats.loaders.read_ahead import ReadAhead
from dataformats.loaders.shuffle import Shuffle
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.testing.loop_over import loop_over
from tests.waiting import LIMIT_S, n_waiting, wait_until

N = 400
WINDOWS = Shuffle.of("window", 10, 4, 2)


@pytest.fixture(autouse=True)
def eight_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give local files as many threads as remote ones."""
    monkeypatch.setattr(read_ahead, "N_THREADS", 8)


class Fetched(dataformats.RecordSource, FetchesRecords):
    """Numbers, which tell what was prefetched."""

    @property
    def format(self) -> str:
        return "numbers"

    @property
    def spec(self) -> dataformats.Spec:
        return dataformats.Spec({"number": "int64"})

    @property
    def fingerprint(self) -> str:
        return "0"

    def record_bytes(self, indices: Any = None) -> float:
        return 2**20

    def __init__(self, fail: bool = False) -> None:
        self.fail = fail
        self.parts: list[list[int]] = []
        self.proceed = threading.Semaphore(0)

    def __len__(self) -> int:
        return N

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise") -> Any:
        raise NotImplementedError

    def fetch(self, indices: Any, fields: Any = None) -> None:
        self.parts.append(np.asarray(indices).tolist())
        assert self.proceed.acquire(timeout=LIMIT_S)
        if self.fail:
            raise OSError("no such bucket")

    @property
    def found(self) -> list[int]:
        return sorted(number for part in self.parts for number in part)


def threads() -> int:
    return sum(thread.name == "dataformats-ahead" for thread in threading.enumerate())


def ahead_of(source: Fetched, shuffle: Shuffle = WINDOWS) -> ReadAhead:
    return ReadAhead((source,), Plan.of_one(N, shuffle, 0), BlockCache(2**20, 2**12))


def records(plan: Plan, *windows: range) -> list[int]:
    return sorted(int(plan.locate([place]).record[0]) for window in windows for place in window)


@pytest.mark.parametrize("fail", [False, True])
def test_this_window_and_the_next_one_of_the_stream(fail: bool) -> None:
    source = Fetched(fail)
    source.proceed.release(100)
    ahead = ahead_of(source)
    plan = Plan.of_one(N, WINDOWS, 0)
    ahead.reach(np.array([1, 3, 5]))  # of the second stream
    wait_until(lambda: threads() == 0)
    assert source.found == records(plan, range(1, 81, 2), range(81, 161, 2))
    assert all(len(part) <= 4 and part == sorted(part) for part in source.parts)
    source.parts.clear()
    ahead.reach(np.array([7, 79]))
    assert threads() == 0
    ahead.reach(np.array([81]))
    wait_until(lambda: threads() == 0)
    assert source.found == records(plan, range(81, 161, 2), range(161, 241, 2))


@loop_over("groups", [1, 2])
@loop_over("rank", [slice(None), slice(0, None, 2)])
def test_batches_of_an_epoch_want_their_windows(groups: int, rank: slice) -> None:
    source, shuffle = Fetched(), Shuffle.of("window", 10, 4, groups)
    for plan in (Plan.of_one(N, shuffle, 0), Plan((N, N), N, shuffle, 0, ((0, (1, 2)),), ("a", "b"))):
        cache, sources = BlockCache(2**20, 2**12), (source,) * len(plan.lengths)
        ahead = ReadAhead(sources, plan, cache)
        for first in [*range(0, 2 * N, 16), 5, 3 * N]:
            positions = np.arange(first, first + 16)[rank]
            assert ahead._wanted(positions) == ReadAhead(sources, plan, cache)._wanted(positions)


def test_an_epoch_of_a_component_follows_its_last_window() -> None:
    """And no epoch of the loader, which may be the last one."""
    source = Fetched()
    source.proceed.release(100)
    alone = Plan.of_one(N, WINDOWS, 0)
    ahead_of(source).reach(np.array([N - 1]))
    wait_until(lambda: threads() == 0)
    assert source.found == records(alone, range(321, N, 2))
    source.parts.clear()
    both = Plan((N, N), N, WINDOWS, 0, ((0, (1, 0)),), ("a", "b"))
    ReadAhead((source, source), both, BlockCache(2**20, 2**12)).reach(np.array([N - 1]))
    wait_until(lambda: threads() == 0)
    assert source.found == records(alone, range(321, N, 2), range(N + 1, N + 81, 2))


def test_records_in_order() -> None:
    source = Fetched()
    source.proceed.release(100)
    ahead_of(source, Shuffle.of(False)).reach(np.array([20, 21]))
    wait_until(lambda: threads() == 0)
    assert sorted(source.parts) == [[*range(first, first + 4)] for first in range(16, 48, 4)]


def test_a_window_begins_after_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the blocks of the first one are the older ones in the cache, and are dropped."""
    monkeypatch.setattr(read_ahead, "_PATIENCE_S", 0.0)
    source = Fetched()
    ahead = ahead_of(source)
    ahead.reach(np.array([0]))
    source.proceed.release(8)  # of the ten parts of the first window
    wait_until(lambda: n_waiting(ahead._changed) == 6)  # two fetch the last parts
    assert len(source.parts) == 10
    source.proceed.release(100)
    wait_until(lambda: threads() == 0)
    assert len(source.parts) == 20


def test_the_process_waits_for_fetches_begun_by_a_daemon() -> None:
    source = Fetched()
    thread = threading.Thread(target=ahead_of(source).reach, args=(np.array([0]),), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    begun = [one for one in threading.enumerate() if one.name == "dataformats-ahead"]
    source.proceed.release(100)
    assert begun
    assert not any(one.daemon for one in begun)
    wait_until(lambda: threads() == 0)


def test_a_move_ends_fetches_under_way() -> None:
    source = Fetched()
    ahead = ahead_of(source)
    ahead.reach(np.array([0]))
    wait_until(lambda: len(source.parts) == threads() > 1)
    ahead.close()
    source.proceed.release(100)
    wait_until(lambda: threads() == 0)
    assert len(source.parts) < 10
    source.parts.clear()
    ahead.reach(np.array([0]))
    wait_until(lambda: threads() == 0)
    assert len(source.parts) == 20


def test_the_thread_ends_when_the_loader_is_dropped() -> None:
    source = Fetched()
    ahead = ahead_of(source)
    ahead.reach(np.array([0]))
    wait_until(lambda: len(source.parts) == threads() > 1)
    del ahead
    gc.collect()
    source.proceed.release(100)
    wait_until(lambda: threads() == 0)
    assert len(source.parts) < 10


def test_first_batch_waits_for_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Fetched()
    ahead = ahead_of(source)
    assert ahead.reach(np.array([4])) is None
    assert ahead.reach(np.array([0])) is None  # whose thread came later
    source.proceed.release(100)
    assert ahead.reach(np.array([2])) is ahead.cache
    monkeypatch.setattr(Fetched, "record_bytes", lambda _: 2**10)  # requests for all records take longer
    assert ahead_of(source).reach(np.arange(0, 80, 2)) is not None


def test_the_next_window_is_there_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch of the second window waits for a request."""
    memory = fsspec.filesystem("memory")
    url = "memory://ahead/x.ffr"
    with dataformats.create(url, spec={"data": "bytes"}) as writer:
        writer.extend({"data": bytes([i % 256]) * 3000} for i in range(N))
    threads_of_calls: list[threading.Thread] = []
    real = type(memory).cat_ranges

    def cat_ranges(*arguments: Any, **options: Any) -> Any:
        threads_of_calls.append(threading.current_thread())
        time.sleep(0.02)
        return real(*arguments, **options)

    source = dataformats.open(url)
    monkeypatch.setattr(type(memory), "cat_ranges", cat_ranges)
    with Loader(source, 10, shuffle="window", workers=0, block_records=20, window_blocks=5) as loader:
        batches = iter(loader)
        for _ in range(10):
            next(batches)
        wait_until(lambda: threads() == 0)
        threads_of_calls.clear()
        for _ in range(10):
            next(batches)
        assert threading.current_thread() not in threads_of_calls
        assert sum(len(batch["data"]) for batch in batches) == N - 200
    memory.rm("/ahead", recursive=True)
