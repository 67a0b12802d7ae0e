"""When a plan reads each part of its remote files next: a disk cache keeps those that are read soonest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import cached_property
from dataformats.interfaces.reader import BlobStarts
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.adapters import Readable
from dataformats.loaders.plan import Plan
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.derived_source import stored_records
from dataformats.storage.remote.disk_blocks import FILE_BYTES, PAGE_BYTES, PageUses, digest_of_key
from dataformats.storage.remote.files import FsspecFile

_ORDERED_BLOCK_BYTES = 2**20
_MAX_EPOCHS = 32  # that are looked at: a block of one of many nodes may return to it later

_Numbers = NDArray[np.int64]


class _Progress(NamedTuple):
    """How far a component is read: its records before `position`; up to which all are in memory; and will be soon."""

    position: int
    n_before: int
    begin: int
    end: int


class _FileBlocks(NamedTuple):
    """The blocks of records in a file: their component, int64[n], their numbers, and int64[n + 1], their bounds."""

    component: int
    blocks: _Numbers
    bounds: _Numbers


class PlannedUse:
    """Returns the positions at which pages of files are read next: see `NextUse`. Thread-safe; pickles.

    Args:
        sources: The components of the plan.
        plan: Maps positions to records; in windows, or in order.
        streams: The streams of windows that the processes with this disk read.
        unit_bytes: Pages are read together in so many bytes.
        repeats: True if each epoch has the order of the first one.
    """

    def __init__(self, sources: Sequence[Readable], plan: Plan, streams: range, unit_bytes: int, repeats: bool) -> None:
        self._arguments = sources, plan, streams, unit_bytes, repeats
        self._sources, self._plan, self._streams, self._unit_bytes, self._repeats = self._arguments
        self._progress: dict[int, _Progress] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannedUse, self._arguments

    def move(self, component: int, position: int, n_before: int, begin: int, end: int) -> None:
        """Note how far a component is read, in records since the run began: see `_Progress`."""
        self._progress[component] = _Progress(position, n_before, begin, end)

    def __call__(self, digest: str, numbers: _Numbers, *, is_read: bool = False) -> PageUses | None:
        file = self._files.get(digest)
        if file is None or file.component not in self._progress:
            return None
        first = np.searchsorted(file.bounds, numbers * FILE_BYTES, side="right") - 1
        counts = np.searchsorted(file.bounds[:-1], (numbers + 1) * FILE_BYTES, side="left") - first
        rows = np.repeat(np.arange(len(numbers)), counts)
        found = np.arange(len(rows)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        uses = self._uses(file.component, file.blocks[found], is_read)
        begin = file.bounds[found] - numbers[rows] * FILE_BYTES
        # A unit with the end of one block and the begin of the next one is kept for the first of them to be read.
        is_sooner = uses < np.append(np.inf, uses[:-1])
        units = np.where(is_sooner, begin // self._unit_bytes, -(-begin // self._unit_bytes))
        first_page = rows * (FILE_BYTES // PAGE_BYTES)  # also of blocks that are smaller than a unit, none overlap
        begins = np.clip(units * self._unit_bytes, 0, FILE_BYTES) // PAGE_BYTES + first_page
        begins = np.maximum.accumulate(begins) - first_page
        is_last = np.append(np.diff(rows) > 0, True)[: len(rows)]
        ends = np.where(is_last, FILE_BYTES // PAGE_BYTES, np.append(begins[1:], 0))
        return PageUses(rows, begins, ends, uses)

    def _uses(self, component: int, blocks: _Numbers, is_read: bool) -> NDArray[np.float64]:
        """Return the position at which each block is read next."""
        uses = np.full(len(blocks), np.inf)
        progress, length, weights = self._progress[component], self._plan.lengths[component], self._plan.history[-1][1]
        epoch, place = divmod(progress.end if is_read else progress.begin, length)
        left = np.arange(len(blocks) if weights[component] else 0)
        for number in range(epoch, epoch + _MAX_EPOCHS):
            places = self._places(component, number, blocks[left])
            is_next = np.isin(places % self._plan.shuffle.groups, self._streams) & (
                (number > epoch) | (places >= place)
            )
            count = number * length + places[is_next] - progress.n_before
            uses[left[is_next]] = progress.position + count * (sum(weights) / weights[component])
            left = left[~is_next]
            if not len(left):
                break
        return uses

    def _places(self, component: int, epoch: int, blocks: _Numbers) -> _Numbers:
        if self._plan.shuffle.kind == "none":
            return blocks * self._block_records(component)
        return self._plan.epoch(component, 0 if self._repeats else epoch).block_places(blocks, self._plan.shuffle)

    def _block_records(self, component: int) -> int:
        source, shuffle = self._sources[component], self._plan.shuffle
        if shuffle.kind == "none" and isinstance(source, RecordSource):
            return max(1, int(_ORDERED_BLOCK_BYTES / max(1.0, source.record_bytes())))
        return max(1, min(shuffle.block_records, self._plan.lengths[component]))

    @cached_property
    def _files(self) -> dict[str, _FileBlocks]:
        """The blocks of each file, by `digest_of_key`."""
        found: dict[str, _FileBlocks] = {}
        for component, source in enumerate(self._sources):
            if isinstance(source, RecordSource):
                with suppress(Exception):  # a read raises it; without these, the least recently used pages are deleted
                    found |= self._files_of(component, source)
        return found

    def _files_of(self, component: int, source: RecordSource) -> dict[str, _FileBlocks]:
        firsts = np.arange(0, len(source), self._block_records(component))
        parts: dict[str, list[tuple[_Numbers, _Numbers]]] = {}
        sizes: dict[str, int] = {}
        for file, rows, offsets in blob_starts(source, firsts):
            if isinstance(file, FsspecFile) and np.all(np.diff(offsets) >= 0):
                digest = digest_of_key(file.cache_key)
                sizes[digest] = file.size
                # Before them lies the rest of the block that began in the file before, or a header.
                parts.setdefault(digest, [(np.maximum(rows[:1] - 1, 0), np.zeros(1, np.int64))]).append((rows, offsets))
        found = {}
        for digest, some in parts.items():
            rows, offsets = (np.concatenate(column) for column in zip(*some, strict=True))
            order = np.argsort(offsets, kind="stable")
            found[digest] = _FileBlocks(component, rows[order], np.append(offsets[order], sizes[digest]))
        return found


def blob_starts(source: RecordSource, indices: _Numbers) -> Iterator[BlobStarts]:
    """Yield where these records begin in each file that has some of them, or some of their fields; reads none."""
    for part in stored_records(source, indices):
        if isinstance(part.source, BlobSource):
            for file, rows, offsets in part.source.blob_starts(part.indices):
                yield BlobStarts(file, part.rows[rows], offsets)
