"""Blocks of remote files that are kept in memory, so that many short reads become a few requests."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from multiprocessing.context import get_spawning_popen
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.fork_hooks import after_fork
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote.disk_blocks import FILE_BYTES, PAGE_BYTES, DiskBlocks, NextUse
from dataformats.storage.remote.names import shown_url
from dataformats.storage.remote.node_folder import NodeFolder
from dataformats.storage.remote.range_requests import get_ranges

_MAX_REQUEST_BYTES = 8 * 2**20
_PORTION_BYTES = 16 * 2**20
_POLL_S = 0.003
_PATIENCE_S = 20.0  # longer than requests that are made again
_IMPATIENT_S = 60.0


class FileRange(NamedTuple):
    """A range of a remote file, and where its bytes go.

    Attributes:
        file: The file: `FsspecFile`.
        offset: The first byte.
        out: Gets the bytes, as many as it has; all of them lie within the file.
    """

    file: Any
    offset: int
    out: memoryview


_Numbers = NDArray[np.int64]

_Block = tuple[tuple[str, ...], int]
"""The key of a block: `FsspecFile.cache_key`, and the number of the block in the file."""


class _Cached:
    """The bytes of a block in memory.

    Attributes:
        data: The bytes; if a plan reads the cache, a view of the answer to their request.
        address: The address of the first byte of a view; 0 without a view.
        beside: The blocks of the answer, if it is a view.
    """

    __slots__ = ("address", "beside", "data")

    def __init__(self, data: bytes | memoryview, address: int = 0, beside: Sequence[_Block] = ()) -> None:
        self.data = data
        self.address = address
        self.beside = beside


class _Run(NamedTuple):
    """Neighboring blocks of a file, which are one request."""

    file: Any
    disk: DiskBlocks | None
    keys: list[_Block]
    span: tuple[int, int]
    """Offset and length in bytes."""


_Answers = dict[_Block, _Cached | BaseException]


class BlockCache:
    """Blocks of remote files; the least recently used ones are dropped. Thread-safe; empty after a fork.

    A block that several threads need is requested once. A block that cannot be read raises in each read that needs it,
    and is requested anew by the next one; all other blocks of the same request are kept.

    Blocks of a file with a `disk` are read from the disk, and kept there. Worker processes that get a cache share its
    blocks in shared memory, and so do the ranks of a node if the cache has a name; then only blocks that there is no
    room for are kept by each process. A block that another process requests at this moment is waited for.

    Args:
        limit_bytes: The most bytes that are kept between reads. A read of more is not cached.
        block_bytes: The size of a block. Only powers of two from `PAGE_BYTES` to `FILE_BYTES` are kept on a disk.
        name: The same on all processes that share blocks; `None`: this process shares none yet.

    Attributes:
        next_use: Says which blocks a disk should keep, for reads through this cache; `None`: the last ones.
    """

    next_use: NextUse | None = None

    def __init__(self, limit_bytes: int, block_bytes: int, name: str | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.block_bytes = block_bytes
        self._name = name
        self._fits_disk = block_bytes % PAGE_BYTES == 0 == FILE_BYTES % block_bytes
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks: OrderedDict[_Block, _Cached] = OrderedDict()
        self._pending: dict[_Block, Future[_Answers]] = {}
        self._dropped: Sequence[_Block] = ()  # the blocks of the answer of which the last one was dropped
        self._n_bytes = 0
        self._counts: Any = [0, 0]  # bytes that were used, and requested
        self._folder: NodeFolder | None = None
        self._shared: DiskBlocks | None = None
        self._is_open = False
        self._impatient_until = 0.0  # requests all that it lacks until then

    @property
    def saves(self) -> bool:
        """False once far more was requested than used: the records lie scattered, and are read better one by one."""
        used, requested = self._counts
        return bool(requested <= self.limit_bytes + 2 * used)

    @property
    def is_shared(self) -> bool:
        """True if other processes may read the blocks that this one puts on a disk."""
        return self._name is not None

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is not None:  # pickled for worker processes
            self._name = self._name or uuid.uuid4().hex
            self._open()  # the folder lives as long as this process, which outlives its workers
        return BlockCache, (self.limit_bytes, self.block_bytes, self._name)

    def _open(self) -> None:
        """Open the shared memory if this process shares blocks, and there is room."""
        if self._is_open or self._name is None:
            return
        with self._lock:
            if self._fits_disk and not self._is_open:
                with suppress(OSError):
                    self._folder = NodeFolder(f"{self._name} {self.limit_bytes} {self.block_bytes}", self.limit_bytes)
                    self._counts = self._folder.counts
                    self._shared = DiskBlocks(self._folder.path, self.limit_bytes)
            self._is_open = True

    def read(self, ranges: Sequence[FileRange]) -> None:
        """Fill `out` of each range.

        Raises:
            OSError: A block cannot be read.
            FormatError: A file ends early, changed, or its server does not support ranges.
        """
        self._open()
        self._counts[0] += sum(len(part.out) for part in ranges)
        if self._shared is not None:
            ranges = list(self._left_of(ranges))
        keyed = [(part, self._keys(part.file, part.offset, len(part.out))) for part in ranges]
        blocks = self._get({key: part.file for part, keys in keyed for key in keys})
        for part, keys in keyed:
            self._copy([_sound(blocks[key]) for key in keys], part.offset % self.block_bytes, part.out)

    def _copy(self, blocks: Sequence[_Cached], skipped: int, out: memoryview) -> None:
        """Fill `out` from these blocks, which follow each other, without the first bytes."""
        at, n_bytes = -skipped, len(out)  # where the block lies in `out`
        for block in blocks:
            begin = at if at > 0 else 0
            piece = memoryview(block.data)[begin - at : n_bytes - at]
            out[begin : begin + len(piece)] = piece
            at += self.block_bytes

    def addresses(
        self, files: Mapping[int, Any], file: _Numbers, offset: _Numbers, length: _Numbers
    ) -> tuple[_Numbers, object] | None:
        """Return the address of each range in memory, and what keeps them there; `None` if only `read` can get them.

        Ranges with blocks that are not neighbors in memory are copied.

        Args:
            files: Number to `FsspecFile`.
            file: int64[n], the number of the file of each range.
            offset: int64[n], the first byte.
            length: int64[n], at least 1; all bytes lie within the file.

        Raises:
            OSError: A block cannot be read.
            FormatError: A file ends early, changed, or its server does not support ranges.
        """
        self._open()
        n_bytes = int(length.sum())
        if self._shared is not None or n_bytes > self.limit_bytes:
            return None
        self._counts[0] += n_bytes
        first, skipped = np.divmod(offset, self.block_bytes)
        counts = (skipped + length - 1) // self.block_bytes + 1
        starts = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        blocks = self._blocks_of(files, np.repeat(file, counts).tolist(), (np.repeat(first, counts) + within).tolist())
        at = np.array([block.address for block in blocks], np.int64)
        apart = (at == 0) | (at != np.repeat(at[starts], counts) + within * self.block_bytes)
        address, copies = at[starts] + skipped, []
        for row in np.flatnonzero(np.logical_or.reduceat(apart, starts)).tolist():
            copy = np.empty(length[row], np.uint8)
            self._copy(blocks[starts[row] : starts[row] + counts[row]], int(skipped[row]), copy.data)
            address[row] = copy.ctypes.data
            copies.append(copy)
        return address, (blocks, copies)

    def _blocks_of(self, files: Mapping[int, Any], of_file: list[int], numbers: list[int]) -> list[_Cached]:
        """Return the blocks of these numbers, each of the file of a number; or raise the error of one."""
        names = {number: file.cache_key for number, file in files.items()}
        keys = list(zip(map(names.__getitem__, of_file), numbers, strict=True))
        with self._lock:
            blocks = [block for key in keys if (block := self._blocks.get(key)) is not None]
        if self.next_use is not None and len(blocks) == len(keys):
            return blocks
        found = self._get(dict(zip(keys, map(files.__getitem__, of_file), strict=True)))
        return [_sound(found[key]) for key in keys]

    def _left_of(self, ranges: Sequence[FileRange]) -> Iterator[FileRange]:
        """Fill the ranges that are on a disk, and return the others."""
        for _, group in groupby(ranges, lambda part: part.file.cache_key):
            parts = list(group)
            file = parts[0].file
            disk = self._disk(file)
            if disk is None:
                yield from parts
                continue
            found = disk.get(file.cache_key, file.size, [(part.offset, len(part.out)) for part in parts])
            for part, data in zip(parts, found, strict=True):
                if data is None:
                    yield part
                else:
                    part.out[:] = data

    def fetch(self, ranges: Iterable[tuple[Any, int, int]]) -> None:
        """Request the blocks of these ranges that are missing, for later reads.

        They are requested a few megabytes at a time, in this order: a read waits for those that it needs alone. A block
        that cannot be read is left to the read that needs it. Nothing is requested if the cache does not save.

        Args:
            ranges: File, offset and length of each.
        """
        self._open()
        portion: dict[_Block, Any] = {}
        for file, offset, length in ranges if self.saves else ():
            portion.update(dict.fromkeys(self._keys(file, offset, length), file))
            if len(portion) * self.block_bytes >= _PORTION_BYTES:
                self._fetch_portion(portion)
                portion = {}
        self._fetch_portion(portion)

    def _fetch_portion(self, portion: dict[_Block, Any]) -> None:
        for run in self._runs(portion) if self._shared is not None else ():
            if run.disk is not None and run.disk.has(run.file.cache_key, *run.span):
                for key in run.keys:
                    del portion[key]
        with suppress(Exception):  # a read raises it
            self._get(portion, is_fetch=True)

    def _keys(self, file: Any, offset: int, length: int) -> list[_Block]:
        first, last = offset // self.block_bytes, (offset + length - 1) // self.block_bytes
        key = file.cache_key
        return [(key, number) for number in range(first, last + 1)]

    def _get(self, wanted: Mapping[_Block, Any], *, is_fetch: bool = False) -> _Answers:
        """Return these blocks; request those that are neither here nor requested by another thread."""
        found: _Answers = {}
        waiting: dict[_Block, Future[_Answers]] = {}
        mine: dict[_Block, Any] = {}
        call: Future[_Answers] = Future()
        with self._lock:
            for key, file in wanted.items():
                block = self._blocks.get(key)
                if block is not None:
                    if is_fetch or self.next_use is None:  # a plan fetches blocks in the order in which it reads them
                        self._blocks.move_to_end(key)
                    found[key] = block
                elif key in self._pending:
                    waiting[key] = self._pending[key]
                else:
                    mine[key] = file
                    self._pending[key] = call
        if mine:
            answers: _Answers = {}
            stored: set[_Block] = set()
            try:
                self._load(dict(mine), answers, stored)
            except Exception as error:
                answers = dict.fromkeys(mine, error) | answers
                raise
            finally:
                is_next = is_fetch or self.next_use is None
                self._settle({key: answers.get(key) or _lost(key) for key in mine}, stored, call, is_next=is_next)
            found |= answers
        # Every block that this thread requested is settled, so threads never wait for each other in a circle.
        for key, other in waiting.items():
            found[key] = other.result()[key]
        return found

    def _settle(self, answers: _Answers, stored: set[_Block], call: Future[_Answers], *, is_next: bool) -> None:
        """Keep the blocks, drop the oldest, and wake the threads that wait; blocks that are not next are the oldest."""
        with self._lock:
            for key, answer in answers.items():
                del self._pending[key]
                if not isinstance(answer, BaseException) and not (self._shared is not None and key in stored):
                    self._blocks[key] = answer
                    self._blocks.move_to_end(key, last=is_next)
                    self._n_bytes += len(answer.data)
            while self._n_bytes > self.limit_bytes:
                _, block = self._blocks.popitem(last=False)
                self._n_bytes -= len(block.data)
                if block.beside is not self._dropped:
                    self._copy_left(self._dropped)
                    self._dropped = block.beside
        call.set_result(answers)

    def _copy_left(self, keys: Sequence[_Block]) -> None:
        """Copy the blocks of an answer that are left because they were fetched again: views keep all of it."""
        blocks = ((key, self._blocks.get(key)) for key in keys)
        left = {key: block.data for key, block in blocks if block is not None and block.beside is keys}
        if left:
            self._blocks.update(self._cut(b"".join(left.values()), list(left)))

    def _disk(self, file: Any) -> DiskBlocks | None:
        """Return where blocks of this file are kept for other processes, or later runs."""
        return (file.disk or self._shared) if self._fits_disk and file.is_versioned else None

    def _load(self, missing: dict[_Block, Any], answers: _Answers, stored: set[_Block]) -> None:
        """Get these blocks from a disk, or else from the servers; wait for those that other processes request.

        Args:
            missing: The blocks; emptied.
            answers: Gets the blocks, or their errors.
            stored: Gets those that are on a disk.
        """
        if all(self._disk(file) is None for file in set(missing.values())):
            self._request(self._runs(missing), answers, stored)
            return
        self._load_stored(missing, answers, stored)
        until = time.monotonic() + _PATIENCE_S
        while missing:
            now = time.monotonic()
            if now > until:
                self._impatient_until = now + _IMPATIENT_S
            claimed: list[_Run] = []
            try:
                for run in self._runs(missing):
                    is_free = run.disk is None or run.disk.claim(run.file.cache_key, *run.span)
                    if is_free or now < self._impatient_until:
                        claimed.append(run)
                mine = {key: run.file for run in claimed for key in run.keys}
                self._load_stored(mine, answers, stored)  # others may have put them there
                self._request(self._runs(mine), answers, stored)
            finally:
                for run in claimed:
                    if run.disk is not None:
                        run.disk.release(run.file.cache_key, *run.span)
            for run in claimed:
                for key in run.keys:
                    del missing[key]
            if missing:
                time.sleep(_POLL_S)
                self._load_stored(missing, answers, stored)

    def _load_stored(self, missing: dict[_Block, Any], answers: _Answers, stored: set[_Block]) -> None:
        for run in self._runs(missing):
            if run.disk is None:
                continue
            (data,) = run.disk.get(run.file.cache_key, run.file.size, [run.span])
            found: dict[_Block, _Cached] = {}
            if data is not None:
                found = self._cut(data, run.keys)
            elif len(run.keys) > 1:  # some may be there
                spans = [self._run([key], run.file).span for key in run.keys]
                single = run.disk.get(run.file.cache_key, run.file.size, spans)
                found = {key: _Cached(one) for key, one in zip(run.keys, single, strict=True) if one is not None}
            answers.update(found)
            stored.update(found)
            for key in found:
                del missing[key]

    def _cut(self, data: bytes | memoryview, keys: Sequence[_Block]) -> dict[_Block, _Cached]:
        """Return these blocks, whose bytes follow each other."""
        view, size = memoryview(data), self.block_bytes
        parts = {key: view[at : at + size] for key, at in zip(keys, range(0, len(view), size), strict=True)}
        if self.next_use is None:  # any blocks are dropped before others
            return {key: _Cached(bytes(part)) for key, part in parts.items()}
        address = np.frombuffer(view, np.uint8).ctypes.data
        return {key: _Cached(part, address + row * size, keys) for row, (key, part) in enumerate(parts.items())}

    def _request(self, runs: Sequence[_Run], answers: _Answers, stored: set[_Block]) -> None:
        """Request runs of blocks, with one call for each file system, and keep them on their disks."""
        by_system: dict[int, list[_Run]] = {}
        plan = READ_CONTEXT.cache
        for run in runs:
            by_system.setdefault(id(run.file.fs), []).append(run)
        for group in by_system.values():
            files = [run.file for run in group]
            data = get_ranges(files[0].fs, [run.file.request(*run.span) for run in group])
            files[0].check_unchanged(files)
            for run, answer in zip(group, data, strict=True):
                if isinstance(answer, Exception):
                    answers.update(dict.fromkeys(run.keys, answer))
                    continue
                self._counts[1] += len(answer)
                answers.update(self._cut(answer, run.keys))
                next_use = None if plan is None or run.disk is self._shared else plan.next_use
                if run.disk is not None and run.disk.put(run.file.cache_key, run.span[0], answer, next_use):
                    stored.update(run.keys)

    def _runs(self, blocks: Mapping[_Block, Any]) -> list[_Run]:
        """Return the blocks in runs of neighbors; each run is one request."""
        groups: list[list[_Block]] = []
        most = max(1, _MAX_REQUEST_BYTES // self.block_bytes)
        group: list[_Block] = []
        behind: tuple[tuple[str, ...], int] = ((), 0)  # a window has thousands of blocks
        for key in sorted(blocks):
            if key != behind or len(group) == most:
                group = []
                groups.append(group)
            group.append(key)
            behind = (key[0], key[1] + 1)
        return [self._run(keys, blocks[keys[0]]) for keys in groups]

    def _run(self, keys: list[_Block], file: Any) -> _Run:
        offset, end = keys[0][1] * self.block_bytes, (keys[-1][1] + 1) * self.block_bytes
        return _Run(file, self._disk(file), keys, (offset, min(file.size, end) - offset))


def _lost(key: _Block) -> OSError:
    (name, *_), number = key
    return OSError(f"{shown_url(name)!r}: the request for block {number} was interrupted")


def _sound(block: _Cached | BaseException) -> _Cached:
    """Return a block, or raise its error."""
    if isinstance(block, BaseException):
        raise block
    return block
