"""When a watchdog takes a worker for hanging."""

from __future__ import annotations

import pytest

from dataformats.errors import WorkerError
from dataformats.loaders.watchdog import Watchdog, WorkerProgress
from tests.loaders.fake_clock import pass_while

NO_PROCESS = 0


def test_progress_begins_the_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rests for a tenth of a second at a time, below the limit; then for longer."""
    looks = iter([*sorted([*range(10), *range(10)]), 9, 9, 9])
    pass_while(lambda: True, monkeypatch)
    watchdog = Watchdog(lambda: [WorkerProgress(0, next(looks), True, NO_PROCESS)], lambda _: "record 9", 0.25)

    def check(times: int) -> None:
        for _ in range(times):
            watchdog.check()

    check(19)
    with pytest.raises(WorkerError, match="record 9: hangs: no progress, and no thread of it runs"):
        check(3)
