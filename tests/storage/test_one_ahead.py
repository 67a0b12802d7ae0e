"""Prefetching of an iterator: order, errors, closing, garbage collection."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dataformats.storage.one_ahead import prefetch
from tests.waiting import LIMIT_S, wait_until


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "prefetch" in thread.name]


def test_everything_comes_in_order() -> None:
    assert list(prefetch(iter(range(100)))) == list(range(100))
    assert list(prefetch(iter([]))) == []
    assert list(prefetch(iter([None, None]))) == [None, None]
    assert threads() == []


def test_one_item_is_made_ahead() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(9):
            made.append(i)
            yield i

    ahead = prefetch(items())
    assert next(ahead) == 0
    wait_until(lambda: made == [0, 1])
    ahead.close()  # type: ignore[attr-defined]
    assert threads() == []


def test_prefetch_raises_after_earlier_items() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    found: list[int] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(prefetch(items()))
    assert found == [1]
    assert threads() == []


def test_stopping_early_closes_the_source() -> None:
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    for item in prefetch(items()):
        if item == 3:
            break
    gc.collect()
    assert closed == [True]
    assert threads() == []


def test_a_cycle_may_be_collected_by_its_own_thread() -> None:
    """The garbage collector runs in any thread that allocates."""
    dropped, collected, closed = threading.Event(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        try:
            yield 0
            assert dropped.wait(LIMIT_S)
            gc.collect()
            collected.set()
            yield 1
        finally:
            closed.set()

    cycle: list[Any] = [prefetch(items())]
    assert next(cycle[0]) == 0
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        dropped.set()
        assert collected.wait(LIMIT_S)
    finally:
        gc.enable()
    assert closed.wait(LIMIT_S)
    wait_until(lambda: not threads())


def test_a_cycle_may_be_collected_while_holding_a_lock_of_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.storage.one_ahead._PATIENCE_S", 0.05)
    lock, begun, closed = threading.Lock(), threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        try:
            yield 0
            begun.set()
            with lock:
                yield 1
        finally:
            closed.set()

    cycle: list[Any] = [prefetch(items())]
    with lock:
        assert next(cycle[0]) == 0
        assert begun.wait(LIMIT_S)
        cycle.append(cycle)
        del cycle
        gc.collect()
    assert closed.wait(LIMIT_S)
    wait_until(lambda: not threads())
