"""`for_each`: every call is made once, threads share the processors, and errors come out."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

import pytest

from dataformats.storage import threads
from dataformats.storage.threads import for_each
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "N_THREADS", 4)
    monkeypatch.setattr(threads, "_POOL", threads.ThreadPool(4, "test"))


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_each_call_is_made_once(n: int) -> None:
    calls: list[int] = []
    for_each(calls.append, n)
    assert sorted(calls) == list(range(n))
    assert not threads._SHARED._jobs


def test_calls_run_at_the_same_time() -> None:
    together = threading.Barrier(4, timeout=240)  # breaks unless four calls meet

    def work(number: int) -> None:
        together.wait()

    for_each(work, 4)


def test_the_error_of_the_lowest_number_is_raised_after_all_calls_ended() -> None:
    running, met = [], threading.Barrier(2, timeout=240)

    def work(number: int) -> None:
        running.append(number)
        if number < 2:
            job = threads._SHARED._jobs[0]
            met.wait()
            wait_until(lambda: number or job._failed)  # number 1 fails first
            running.remove(number)
            raise ValueError(f"number {number}")
        running.remove(number)

    with pytest.raises(ValueError, match="number 0"):
        for_each(work, 1000)
    assert running == []
    for_each(lambda number: None, 10)  # no state is left behind


def test_a_failure_takes_no_number_from_under_another_thread() -> None:
    class Todo(deque[int]):
        def clear(self) -> None:
            assert job._lock.locked()  # else a thread that has just seen a number left would find none
            super().clear()

    def fail(number: int) -> None:
        raise ValueError

    job = threads._CallGroup(fail, 3)
    job._todo = Todo(range(3))
    assert job.step()
    assert not job.step()


def test_several_callers_share_the_processors() -> None:
    most, now, lock = 0, 0, threading.Lock()
    calls: list[tuple[int, int]] = []

    def caller(name: int) -> None:
        def work(number: int) -> None:
            nonlocal most, now
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.001)
            with lock:
                now -= 1
                calls.append((name, number))

        for_each(work, 30)

    callers = [threading.Thread(target=caller, args=(name,)) for name in range(3)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(240)
    assert sorted(calls) == [(name, number) for name in range(3) for number in range(30)]
    assert most <= 4 + 2  # a thread that helps leaves after its call if a caller needs its processor
    wait_until(lambda: threads._SHARED._n_working == 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    for_each(lambda number: None, 10)
    if (child := os.fork()) == 0:
        calls: list[int] = []
        for_each(calls.append, 50)
        os._exit(0 if sorted(calls) == list(range(50)) else 1)
    assert os.waitpid(child, 0)[1] == 0
