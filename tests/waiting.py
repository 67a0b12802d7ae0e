"""Waiting for what another thread or process does: for as long as it takes, unless it hangs."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from types import ModuleType
from typing import Any

import pytest

LIMIT_S = 240.0
"""Tells a hang from work on a busy machine; less than the `timeout` of pytest."""


def wait_until(condition: Callable[[], object]) -> None:
    """Return once the condition is true.

    Raises:
        TimeoutError: It is still false after `LIMIT_S`.
    """
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT_S:.0f} s in vain")
        time.sleep(0.002)


def in_fork(function: Callable[[], Any]) -> Any:
    """Return the result of a function in a forked child; a child that hangs writes the stacks of its threads."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def run() -> None:
        faulthandler.register(signal.SIGUSR1)
        queue.put(function())

    child = context.Process(target=run)
    child.start()
    try:
        return queue.get(timeout=LIMIT_S)
    except Empty:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGUSR1)
        child.join(1)
        raise
    finally:
        child.kill()
        child.join()


def n_waiting(condition: threading.Condition) -> int:
    """Return how many threads wait for a notification."""
    return len(vars(condition)["_waiters"])


def future_wait(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set as soon as a thread waits for a `Future` that the module makes."""
    waits = threading.Event()

    class AwaitedFuture(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            waits.set()
            return super().result(timeout)

    monkeypatch.setattr(module, "Future", AwaitedFuture)
    return waits
