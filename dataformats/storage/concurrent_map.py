"""Many small reads at once: a disk or a server that answers late is not waited for ten thousand times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["overlapped"]

_THREADS = 16
_FEW = 4
_FEW_LOCAL = 64  # to start threads costs as much as so many reads from a warm disk

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def overlapped(function: Callable[[Item], Answer], items: Sequence[Item], *, local: bool) -> list[Answer]:
    """Return what a function that reads little gives for each item, in their order.

    Args:
        function: Thread-safe. What it raises is raised here.
        items: What it is called with.
        local: True where it reads from the local disk, so that a few items need no threads.
    """
    if len(items) <= (_FEW_LOCAL if local else _FEW):
        return [function(item) for item in items]
    # A task of several items: handing each over would cost more than a warm read.
    step = -(-len(items) // (4 * _THREADS)) if local else 1
    tasks = [items[first : first + step] for first in range(0, len(items), step)]
    with ThreadPoolExecutor(min(_THREADS, len(tasks))) as threads:
        done = threads.map(lambda task: [function(item) for item in task], tasks)
        return [answer for answers in done for answer in answers]
