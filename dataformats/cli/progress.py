"""Progress bars: on standard error, if it is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal

Report = Callable[[int, int], None]

_COLUMNS, _ROWS = 80, 24
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
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no thread: each report draws the bar
    tqdm.set_lock(RLock())  # the default one is for processes, too
    try:
        # A terminal that does not know its size has 0 columns and rows, in which tqdm draws nothing.
        has_size = all(os.get_terminal_size(sys.stderr.fileno()))
    except OSError:  # a stream without a descriptor
        has_size = False
    size: dict[str, Any] = {"dynamic_ncols": True} if has_size else {"ncols": _COLUMNS, "nrows": _ROWS}
    with tqdm(
        desc=what,
        unit="B" if unit == "bytes" else f" {unit}",
        unit_scale=True,
        **size,
        leave=False,
        file=sys.stderr,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}]",
    ) as progress:
        shown = 0.0

        def report(done: int, total: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= _SECONDS or done >= total:
                shown = now
                progress.n, progress.total = done, total
                progress.refresh()

        yield report
