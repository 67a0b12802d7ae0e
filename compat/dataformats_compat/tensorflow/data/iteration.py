"""The transformations of datasets, as generators."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from dataformats.internals import prefetch

__all__ = ["batches", "groups", "interleaved", "mapped", "prefetched", "repeated", "shuffled", "windows"]

_LONG_S = 2e-4  # a call that takes less is not worth a thread
_SAMPLES = 8
_CHUNK_S = 1e-3  # a thread hands over the elements of this time at once
_CHUNK = 256


def mapped(items: Iterable[Any], function: Callable[[Any], Any], n_threads: int) -> Iterator[Any]:
    """Yield `function(item)` of each item, in order; with threads, if the calls take long enough."""
    source = iter(items)
    samples: deque[float] = deque(maxlen=_SAMPLES)
    for item in source:
        begun = time.perf_counter()
        result = function(item)
        samples.append(time.perf_counter() - begun)
        yield result
        if n_threads > 1 and len(samples) == _SAMPLES and min(samples) > _LONG_S:
            yield from _in_threads(source, function, n_threads)


def _in_threads(items: Iterator[Any], function: Callable[[Any], Any], n_threads: int) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    executor = ThreadPoolExecutor(n_threads, thread_name_prefix="dataformats-map")
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > 2 * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def prefetched(items: Iterable[Any], most: int) -> Iterator[Any]:
    """Yield the items of an iterator that runs ahead in a thread: by about 1 ms, and by one item at least."""
    for chunk in prefetch(_chunks(iter(items), most)):
        yield from chunk


def _chunks(items: Iterator[Any], most: int) -> Iterator[list[Any]]:
    """Yield lists of items; those before an error, then the error."""
    ended = False
    while not ended:
        chunk: list[Any] = []
        deadline = time.perf_counter() + _CHUNK_S
        try:
            for item in items:
                chunk.append(item)
                if len(chunk) >= most or time.perf_counter() > deadline:
                    break
            else:
                ended = True
        except BaseException:
            if chunk:
                yield chunk
            raise
        if chunk:
            yield chunk


def batches(items: Iterable[Any], size: int, drop_remainder: bool) -> Iterator[list[Any]]:
    """Yield lists of `size` items."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        if len(chunk) == size or not drop_remainder:
            yield chunk


def windows(items: Iterable[Any], size: int, shift: int, stride: int, drop_remainder: bool) -> Iterator[list[Any]]:
    """Yield lists of `size` items, `stride` items apart, that begin at every `shift`-th item."""
    source = iter(items)
    span = (size - 1) * stride + 1
    held = list(islice(source, span))
    while held:
        found = held[::stride]
        if len(found) == size or not drop_remainder:
            yield found
        for _ in islice(source, max(0, shift - span)):  # they are in no window
            pass
        held = held[shift:]
        held += islice(source, span - len(held))


def groups(
    items: Iterable[Any], key_of: Callable[[Any], int], size_of: Callable[[int], int]
) -> Iterator[tuple[int, list[Any]]]:
    """Yield keys and the items of each: full groups at once, the others at the end, in the order of the keys."""
    held: dict[int, list[Any]] = {}
    sizes: dict[int, int] = {}
    for item in items:
        key = key_of(item)
        if key not in held:
            held[key], sizes[key] = [], size_of(key)
        held[key].append(item)
        if len(held[key]) == sizes[key]:
            yield key, held.pop(key)
    yield from sorted(held.items())


def shuffled(items: Iterable[Any], size: int, chooser: random.Random) -> Iterator[Any]:
    """Yield items in random order: each is drawn from the next `size` that were not yet drawn."""
    source = iter(items)
    buffer = list(islice(source, size))
    draw = chooser.random
    for item in source:
        at = int(draw() * size)
        buffer[at], drawn = item, buffer[at]
        yield drawn
    chooser.shuffle(buffer)
    yield from buffer


def repeated(make: Callable[[], Iterator[Any]], count: int) -> Iterator[Any]:
    """Yield the items of `count` new iterators; if it is negative, without end, unless there are none."""
    done = 0
    while done != count:
        n = 0
        for item in make():
            n += 1
            yield item
        if not n:
            return
        done += 1


def interleaved(items: Iterable[Any], opened: Callable[[Any], Iterator[Any]], cycle: int, block: int) -> Iterator[Any]:
    """Yield blocks of the items of several iterators in turn; an iterator that ends leaves its turn to the next item.

    Args:
        items: The items; the iterator of an item is opened when its turn comes.
        opened: Returns the iterator of an item.
        cycle: How many are open at once.
        block: How many items of one are yielded at its turn.
    """
    source = iter(items)
    if cycle == 1:
        for item in source:
            yield from opened(item)
        return
    slots: list[Iterator[Any] | None] = [None] * cycle
    ended = False
    while not ended or any(slot is not None for slot in slots):
        for at, slot in enumerate(slots):
            current = slot
            if current is None and not ended:
                for item in source:
                    current = slots[at] = opened(item)
                    break
                else:
                    ended = True
            if current is None:
                continue
            n = 0
            for value in islice(current, block):
                n += 1
                yield value
            if n < block:
                slots[at] = None
