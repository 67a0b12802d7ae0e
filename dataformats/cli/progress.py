"""Progress bars: on standard error, if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

__all__ = ["Report", "bar"]

Report = Callable[[int, int], None]

_SECONDS = 0.05  # time between two updates of a bar: each file and each megabyte may report progress


@contextmanager
def bar(what: str, unit: Literal["records", "bytes"] = "records") -> Iterator[Report | None]:
    """Yield a function to call with (done, total) from any thread; `None` if standard error is no terminal.

    Args:
        what: The label of the bar, such as `"verifying"`.
        unit: The unit that is counted.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*_columns(unit), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, rate="")
        shown = 0.0

        def report(done: int, total: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= _SECONDS or done >= total:
                shown = now
                progress.update(task, completed=done, total=total)
                speed = progress.tasks[task].speed
                progress.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield report


def _columns(unit: str) -> list[ProgressColumn]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    if unit == "bytes":
        text = TextColumn("{task.description}")
        return [text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
    text, rate = TextColumn("{task.description} (records)"), TextColumn("{task.fields[rate]}")
    return [text, BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()]
