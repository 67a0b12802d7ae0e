"""Clocks for what loaders measure, and for how long they wait: neither depends on the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from dataformats.loaders import watchdog


class FakeClock(threading.local):
    """A clock that stands still but for its own `sleep`; each thread has its own, and so has a forked child.

    Attributes:
        now_s: Seconds that this thread has slept.
        worked_s: Seconds of a processor that it has used; tests add to it.
    """

    now_s = worked_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let loaders measure with this clock."""
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(time, "thread_time", lambda: self.worked_s)


CLOCK = FakeClock()


def pass_while(passes: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time that watchdogs measure pass while this is true: a tenth of a second between two looks.

    On a busy machine, a worker that does not hang may rest for any time.
    """
    now_s = 0.0

    def monotonic() -> float:
        nonlocal now_s
        now_s += 0.1 if passes() else 0.0
        return now_s

    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=monotonic))
