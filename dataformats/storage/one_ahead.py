"""Prefetch one item: a thread computes the next item while the caller uses the last one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
_END = object()
_PATIENCE_S = 10.0


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator that runs one item ahead in another thread.

    An exception of the iterator is raised here after the items before it. The thread ends with the iteration, also if
    the caller stops early; if the last item takes longer than 10 s, the thread ends after that item.
    """
    thread: list[threading.Thread] = []
    executor = ThreadPoolExecutor(
        1, thread_name_prefix="dataformats-prefetch", initializer=lambda: thread.append(threading.current_thread())
    )
    pending: Future[object] = executor.submit(next, items, _END)
    try:
        while (item := pending.result()) is not _END:
            pending = executor.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END never gets here
    finally:
        _end(executor, thread, pending, items)


def _end(
    executor: ThreadPoolExecutor, thread: list[threading.Thread], pending: Future[object], items: Iterator[T]
) -> None:
    """End the thread, then close the iterator.

    The garbage collector ends an iteration that is part of a cycle, in any thread that allocates: in the prefetching
    thread itself, or in a thread that holds a lock for which the last item waits. So no wait here is unbounded.
    """
    executor.shutdown(wait=False, cancel_futures=True)
    from_within = threading.current_thread() in thread
    if not from_within:
        with suppress(CancelledError, TimeoutError):
            pending.exception(_PATIENCE_S)
    if not pending.done():
        pending.add_done_callback(lambda _: _close(items))
        return
    if not from_within:
        for one in thread:
            one.join(_PATIENCE_S)
    _close(items)


def _close(items: Iterator[T]) -> None:
    close = getattr(items, "close", None)  # a generator has one
    if close is not None:
        close()
