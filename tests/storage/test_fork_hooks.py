"""Forked children: hooks run if their object is alive, and no lock of a thread of the parent is left behind."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataformats import fork_hooks
from dataformats.fork_hooks import after_fork, cached_property, no_fork
from tests.waiting import LIMIT_S, wait_until

SLOW_MODULE = """
import builtins
builtins.begun_imports.append(1)
if len(builtins.begun_imports) == 1:
    builtins.first_import_may_end.wait()
VALUE = 41
"""


def exit_code_of_child(function: Callable[[], int]) -> int | None:
    """Return what `function` returns in a forked child; `None` if it hangs there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = function()
        finally:
            os._exit(code)
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def test_hooks_run_in_the_child() -> None:
    class Counter:
        n_calls = 0

        def count(self) -> None:
            self.n_calls += 1

    thing, forgotten = Counter(), Counter()
    after_fork(thing, "count")
    after_fork(forgotten, "count")
    del forgotten
    gc.collect()
    assert exit_code_of_child(lambda: 40 + thing.n_calls) == 41
    assert thing.n_calls == 0


def test_a_failing_hook_stops_no_other() -> None:
    class Hooked:
        is_called = False

        def fail(self) -> None:
            raise ValueError("on purpose")

        def call(self) -> None:
            self.is_called = True

    things = [Hooked(), Hooked(), Hooked()]
    for thing, method in zip(things, ("fail", "call", "fail"), strict=True):
        after_fork(thing, method)
    assert exit_code_of_child(lambda: 40 + things[1].is_called) == 41


@pytest.fixture
def fork_waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set once a fork waits for another thread, as long as it takes."""
    waits = threading.Event()

    def sleep(seconds: float) -> None:
        waits.set()
        time.sleep(seconds)

    monkeypatch.setattr(fork_hooks, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    monkeypatch.setattr(fork_hooks, "_PATIENCE_S", LIMIT_S)
    return waits


@pytest.fixture
def import_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[threading.Event], threading.Thread]]:
    """A function that begins the import of `slow_module` in a thread; the import goes on until an event is set."""
    begun: list[int] = []
    started: list[tuple[threading.Thread, threading.Event]] = []
    monkeypatch.setattr("builtins.begun_imports", begun, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)

    def begin(may_end: threading.Event) -> threading.Thread:
        monkeypatch.setattr("builtins.first_import_may_end", may_end, raising=False)
        thread = threading.Thread(target=importlib.import_module, args=("slow_module",))
        started.append((thread, may_end))
        thread.start()
        wait_until(lambda: begun)
        return thread

    yield begin
    for thread, may_end in started:
        may_end.set()
        thread.join()
    sys.modules.pop("slow_module", None)


def imported_value() -> int:
    return int(importlib.import_module("slow_module").VALUE)


def test_a_fork_waits_for_imports_of_other_threads(
    import_slowly: Callable[[threading.Event], threading.Thread], fork_waits: threading.Event
) -> None:
    import_slowly(fork_waits)
    assert exit_code_of_child(lambda: imported_value() if "slow_module" in sys.modules else 2) == 41


def test_a_child_repeats_a_long_import(
    import_slowly: Callable[[threading.Event], threading.Thread],
    fork_waits: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_hooks, "_PATIENCE_S", 0.01)
    may_end = threading.Event()
    thread = import_slowly(may_end)
    assert exit_code_of_child(imported_value) == 41
    assert fork_waits.is_set()
    fork_waits.clear()
    assert exit_code_of_child(imported_value) == 41
    assert not fork_waits.is_set()  # the second fork did not wait again
    may_end.set()
    thread.join()
    assert imported_value() == 41


def test_a_cached_property_waits_for_no_other_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread computes the same property of another object at the moment of the fork."""
    begun, ended = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, *, waits: bool) -> None:
            self.waits = waits

        @cached_property
        def value(self) -> int:
            begun.set()
            if self.waits:
                ended.wait()
            return 41

    thread = threading.Thread(target=lambda: Slow(waits=True).value)
    thread.start()
    begun.wait()
    assert exit_code_of_child(lambda: Slow(waits=False).value) == 41
    here = threading.Thread(target=lambda: Slow(waits=False).value, daemon=True)
    here.start()
    here.join(LIMIT_S)
    assert not here.is_alive()
    ended.set()
    thread.join()


def test_all_threads_get_one_value_of_a_cached_property() -> None:
    both = threading.Barrier(2)

    class Shared:
        @cached_property
        def value(self) -> list[int]:
            both.wait(LIMIT_S)
            return []

    shared, found = Shared(), list[list[int]]()
    threads = [threading.Thread(target=lambda: found.append(shared.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is shared.value


def test_a_fork_waits_for_a_call_of_a_library(fork_waits: threading.Event) -> None:
    lock, begun = threading.Lock(), threading.Event()

    def call() -> None:
        with no_fork(), lock:
            begun.set()
            fork_waits.wait(LIMIT_S)

    def call_again() -> int:
        with no_fork():
            return int(not lock.acquire(timeout=5))

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    assert exit_code_of_child(call_again) == 0
    assert fork_waits.is_set()
    thread.join()
    assert call_again() == 0
