"""Reads ahead of a consumer: the next item is made while the last one is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")
_END = object()


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator that runs one item ahead, in a thread of its own.

    What it raises is raised here after the items before. The thread ends with the iteration, also where the consumer
    stops early.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="dataformats-ahead")
    try:
        pending: Future[object] = executor.submit(next, items, _END)
        while (item := pending.result()) is not _END:
            pending = executor.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END never gets here
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        close = getattr(items, "close", None)  # a generator has one
        if close is not None:
            close()
