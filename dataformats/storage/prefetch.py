"""Reads ahead of a consumer: the next item is made while the last one is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

__all__ = ["prefetch"]

T = TypeVar("T")
_END = object()
_PATIENCE_S = 10.0


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator that runs one item ahead, in a thread of its own.

    What it raises is raised here after the items before. The thread ends with the iteration, also where the consumer
    stops early; if its last item takes longer than some seconds, behind that.
    """
    thread: list[int] = []
    executor = ThreadPoolExecutor(
        1, thread_name_prefix="dataformats-ahead", initializer=lambda: thread.append(threading.get_ident())
    )
    pending: Future[object] = executor.submit(next, items, _END)
    try:
        while (item := pending.result()) is not _END:
            pending = executor.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END never gets here
    finally:
        _end(executor, threading.get_ident() in thread, pending, items)


def _end(executor: ThreadPoolExecutor, from_within: bool, pending: Future[object], items: Iterator[T]) -> None:
    """End the thread, and the iterator behind its last item.

    An iteration in a cycle ends as garbage, in whatever thread allocates: in the very one that is to end, or in one
    that holds a lock which the last item waits for. So nobody may wait for ever here.
    """
    executor.shutdown(wait=False, cancel_futures=True)
    if not from_within:
        with suppress(CancelledError, TimeoutError):
            pending.exception(_PATIENCE_S)
    if not pending.done():
        pending.add_done_callback(lambda _: _close(items))
        return
    if not from_within:
        executor.shutdown(wait=True)
    _close(items)


def _close(items: Iterator[T]) -> None:
    close = getattr(items, "close", None)  # a generator has one
    if close is not None:
        close()
