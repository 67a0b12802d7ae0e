"""Fetch the next window of records while this one is used: request remote ones, decode blocks."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import after_fork
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.adapters import Readable
from dataformats.loaders.next_use import PlannedUse
from dataformats.loaders.plan import Plan
from dataformats.loaders.shuffle import group_rows
from dataformats.reading.derived_source import fetch
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.systems import is_url
from dataformats.storage.threads import N_THREADS

_ORDERED_BYTES = 16 * 2**20  # a window of records in order: two of them fit into their cache
_PART_BYTES = 4 * 2**20  # that a thread fetches at once; a read that needs some of them waits for all
_BYTES_OF_REQUEST = 2**19  # arrive in the time of one request, or later
_THREADS = 8  # one connection is slower than the network
_PATIENCE_S = 2.0  # then a batch requests its records itself


class _Window(NamedTuple):
    """The records of some places of a part of an epoch, which are fetched together; see `Plan.places`."""

    component: int
    epoch: int
    part: int
    places: range


class _Part(NamedTuple):
    """Records of a window that a thread fetches at once."""

    window: _Window
    source: RecordSource
    records: NDArray[np.int64]


class ReadAhead:
    """Fetches windows into a cache: those that are read, and the next ones. Thread-safe; empty after a fork.

    A few threads do so, and end with the windows, or when this object is dropped. What they fail to fetch is left to
    the read of the record.

    Args:
        sources: The components of the plan.
        plan: Maps positions to records; in windows, or in order.
        cache: Has room for these windows of remote files; `None` if sources keep decoded blocks alone.
        next_use: Gets what is read, for the disk under the cache.
    """

    def __init__(
        self, sources: Sequence[Readable], plan: Plan, cache: BlockCache | None, next_use: PlannedUse | None = None
    ) -> None:
        self._sources = sources
        self._plan = plan
        self._mean_bytes = [one.record_bytes() if isinstance(one, RecordSource) else 0.0 for one in sources]
        paths = (path for one in sources if isinstance(one, RecordSource) for path in one.paths)
        self._threads = _THREADS if any(map(is_url, paths)) else min(_THREADS, N_THREADS)
        self.cache: BlockCache | None = cache
        self._next_use = next_use
        if cache is not None:
            cache.next_use = next_use
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._left: dict[_Window, int] = {}  # parts that are not fetched yet
        self._first = 0  # the position of the first batch
        self._begun: list[_Window] = []  # the last ones: of batches built at once, each may be in another window
        self._todo: deque[_Window] = deque()
        self._parts: deque[_Part] = deque()  # parts of one window
        self._running = 0  # threads
        self._last: tuple[range, tuple[list[_Window], list[_Window]]] = range(0), ([], [])  # positions of one window

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadAhead, (self._sources, self._plan, self.cache, self._next_use)

    def reach(self, positions: NDArray[np.int64]) -> BlockCache | None:
        """Fetch the windows of these positions, which are read now, and then the windows after them.

        It waits for the first ones, because many small requests take longer than a few large ones. The first batch does
        not wait if its records are few. Threads come in any order, so a batch before all earlier calls is a first one.

        Returns:
            The cache to read the records through; `None`: each is a request.
        """
        windows, wanted = self._wanted(positions)
        with self._changed:
            is_first = not self._begun or positions[0] < self._first
            if is_first:
                self._first = int(positions[0])
            if any(window not in self._begun for window in wanted):
                self._begun = [*self._begun, *wanted][-3 * len(wanted) :]
                self._note_use(int(positions[0]), windows, wanted)
                # Also those that are fetched, but not those under way: else the cache would drop them for new ones.
                self._todo = deque(one for one in wanted if one in self._todo or not self._left.get(one))
                self._left = {one: self._left.get(one) or 1 for one in wanted}
                if self._parts and self._parts[0].window not in wanted:
                    self._parts.clear()
                started, self._running = self._threads - self._running, self._threads
                for _ in range(started):
                    # No daemon, although the loader's thread that starts it is one: a daemon that is in a library's
                    # code when the process ends aborts it.
                    name, arguments = "dataformats-ahead", (weakref.ref(self),)
                    threading.Thread(target=_run, args=arguments, name=name, daemon=False).start()
            if is_first and self._is_sooner_alone(len(positions), windows):
                return None
            self._changed.wait_for(lambda: all(self._left.get(one, 0) <= 0 for one in windows), _PATIENCE_S)
            return self.cache

    def close(self) -> None:
        """End the threads after the parts that they fetch."""
        with self._changed:
            self._begun, self._todo, self._parts = [], deque(), deque()
            self._left.clear()
            self._changed.notify_all()

    def take(self) -> _Part | None:
        """Return the part that a thread has to fetch next; `None` if nothing is left: then the thread ends.

        A window begins if no part of the one before it is being fetched: else its blocks, which are older, are dropped.
        """
        with self._changed:
            while self._todo and not self._parts:
                if any(left > 0 and window not in self._todo for window, left in self._left.items()):
                    self._changed.wait()
                    continue
                window = self._todo.popleft()
                self._parts = self._parts_of(window)
                self._left[window] = len(self._parts)
                self._changed.notify_all()
            if self._parts and threading.main_thread().is_alive():
                return self._parts.popleft()
            self._running -= 1
            return None

    def finish(self, part: _Part) -> None:
        """Count a part as fetched."""
        with self._changed:
            if part.window in self._left:
                self._left[part.window] -= 1
                self._changed.notify_all()

    def _wanted(self, positions: NDArray[np.int64]) -> tuple[list[_Window], list[_Window]]:
        """Return the windows that these ascending positions are in; and these with the next ones, which are fetched."""
        known, found = self._last
        if int(positions[0]) in known and int(positions[-1]) in known:
            return found
        *columns, place = self._plan.places(positions)
        windows = list[_Window]()
        for rows in group_rows(*columns):
            component, epoch, part = (int(column[rows][0]) for column in columns)
            key = component, epoch, part
            windows += [_Window(*key, places) for places in self._ranges(*key, place[rows])]
        behind = [self._next(window) for window in windows]
        # If a batch has the end of a window, the one after the next would push out its other records.
        is_late = [window in behind and len(window.places) > len(positions) for window in windows]
        wanted = windows + [one for one, late in zip(behind, is_late, strict=True) if one and not late]
        places = windows[0].places
        is_alone = len(self._plan.lengths) == 1 and len(windows) == 1 and not self._plan.grown
        if is_alone and places.step == 1:
            begin = int(positions[0] - place[0])
            self._last = range(begin + places.start, begin + places.stop), (windows, wanted)
        return windows, wanted

    def _ranges(self, component: int, epoch: int, part: int, places: NDArray[np.int64]) -> list[range]:
        order, shuffle = self._plan.epoch(component, epoch, part), self._plan.shuffle
        if shuffle.kind == "window":
            return order.windows(places, shuffle)
        size = self._records_of(component, _ORDERED_BYTES)
        return [range(first, min(first + size, order.n)) for first in np.unique(places // size * size).tolist()]

    def _next(self, window: _Window) -> _Window | None:
        """Return the window of the same stream behind this one; `None` after the last one of an epoch of the loader.

        That epoch may be the last one. A component of a mixture begins its next epoch meanwhile.
        """
        component, epoch, part, places = window
        behind = places[-1] + places.step
        if behind >= self._plan.epoch(component, epoch, part).n:
            if len(self._plan.lengths) == 1 or part:
                return None
            epoch, behind = epoch + 1, places[0] % places.step
        (found,) = self._ranges(component, epoch, part, np.array([behind]))
        return _Window(component, epoch, part, found)

    def _note_use(self, position: int, windows: list[_Window], wanted: list[_Window]) -> None:
        """Note which windows a disk has to keep: the next one, which is not in memory yet.

        Other processes that share the disk may still read this one, and the one before.
        """
        if self._next_use is None or self.cache is None:
            return
        for component in {window.component for window in windows}:
            n = self._plan.lengths[component]
            now, all_wanted, begun = (
                [(epoch * n + places[0], epoch * n + places.stop) for one, epoch, _, places in some if one == component]
                for some in (windows, wanted, self._begun)
            )
            count = min(first for first, _ in now)
            if self.cache.is_shared:
                begin = end = min(first for first, _ in begun)
            else:
                begin, end = min(stop for _, stop in now), max(stop for _, stop in all_wanted)
            self._next_use.move(component, position, count, begin, end)

    def _parts_of(self, window: _Window) -> deque[_Part]:
        component, epoch, part, places = window
        source = self._sources[component]
        if not isinstance(source, RecordSource):
            return deque()
        order = self._plan.epoch(component, epoch, part)
        records = np.sort(order.records(np.arange(places.start, places.stop, places.step), self._plan.shuffle))
        size = self._records_of(component, _PART_BYTES)
        if source.block_starts is not None:
            cuts = np.unique(np.searchsorted(records, source.block_starts))
            groups = np.split(records, cuts[np.diff(cuts // size, prepend=-1) > 0])  # small blocks together
            return deque(_Part(window, source, group) for group in groups if len(group))
        parts = deque(_Part(window, source, records[at : at + size]) for at in range(0, len(records), size))
        parts.rotate(os.getpid())  # processes that share a cache begin with different ones
        return parts

    def _is_sooner_alone(self, n_records: int, windows: list[_Window]) -> bool:
        """Return True if a request for each record takes less time than these windows, which others may share."""
        n_bytes = sum(len(window.places) * self._mean_bytes[window.component] for window in windows)
        is_shared = any(self._plan.blocks) if self.cache is None else self.cache.is_shared
        return not is_shared and n_records * _BYTES_OF_REQUEST <= n_bytes

    def _records_of(self, component: int, n_bytes: int) -> int:
        """Return how many records have about this many bytes."""
        return max(1, int(n_bytes / max(1.0, self._mean_bytes[component])))


def _run(ahead: weakref.ref[ReadAhead]) -> None:
    while (one := ahead()) is not None and (part := one.take()) is not None:
        cache = one.cache
        del one  # may be dropped meanwhile
        try:
            with suppress(Exception), READ_CONTEXT.reading_through(cache):
                fetch(part.source, part.records)
        finally:
            if (one := ahead()) is not None:
                one.finish(part)
