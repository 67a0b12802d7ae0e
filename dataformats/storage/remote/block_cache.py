"""Blocks of remote files that are kept in memory, so that many short reads become a few requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

from dataformats.fork_hooks import after_fork
from dataformats.storage.remote.checked_requests import RangeRequest
from dataformats.storage.remote.disk_blocks import DiskBlocks
from dataformats.storage.remote.range_requests import get_ranges

__all__ = ["BlockCache", "FileRange", "current_cache", "reading_through"]

_MOST_REQUEST_BYTES = 8 * 2**20


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


class _Block(NamedTuple):
    """The key of a block: `FsspecFile.cache_key`, and the number of the block in the file."""

    file: tuple[str, ...]
    number: int


class BlockCache:
    """Blocks of remote files; the least recently used ones are dropped. Thread-safe; empty after a fork.

    A block that several threads need is requested once. A block that cannot be read raises in each read that needs it,
    and is requested anew by the next one; all other blocks of the same request are kept.

    Args:
        limit_bytes: The most bytes that are kept between reads. A read of more is not cached.
        block_bytes: The size of a block.
        disk: Keeps blocks on the local disk as well; `None` for memory alone.
    """

    def __init__(self, limit_bytes: int, block_bytes: int, disk: DiskBlocks | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.block_bytes = block_bytes
        self.disk = disk
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks: OrderedDict[_Block, bytes] = OrderedDict()
        self._pending: dict[_Block, Future[bytes]] = {}
        self._n_bytes = 0
        self._used_bytes = self._fetched_bytes = 0

    @property
    def saves(self) -> bool:
        """False once far more was requested than used: then the records lie scattered, and are read better one by one.

        A cache with a disk always saves: the blocks are used later.
        """
        return self.disk is not None or self._fetched_bytes <= self.limit_bytes + 2 * self._used_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockCache, (self.limit_bytes, self.block_bytes, self.disk)

    def read(self, ranges: Sequence[FileRange]) -> None:
        """Fill `out` of each range.

        Raises:
            OSError: A block cannot be read.
            FormatError: A file ends early, changed, or its server does not support ranges.
        """
        self._used_bytes += sum(len(part.out) for part in ranges)
        blocks = self._get({key: part.file for part in ranges for key in self._keys(part)})
        for part in ranges:
            for key in self._keys(part):
                at = key.number * self.block_bytes - part.offset  # where the block lies in `out`
                piece = memoryview(blocks[key])[max(0, -at) : len(part.out) - at]
                part.out[max(0, at) : max(0, at) + len(piece)] = piece

    def _keys(self, part: FileRange) -> Iterator[_Block]:
        first, last = part.offset // self.block_bytes, (part.offset + len(part.out) - 1) // self.block_bytes
        return (_Block(part.file.cache_key, number) for number in range(first, last + 1))

    def _get(self, wanted: Mapping[_Block, Any]) -> dict[_Block, bytes]:
        """Return these blocks; request those that are neither here nor requested by another thread."""
        found: dict[_Block, bytes] = {}
        waiting: dict[_Block, Future[bytes]] = {}
        mine: dict[_Block, Any] = {}
        with self._lock:
            for key, file in wanted.items():
                if key in self._blocks:
                    self._blocks.move_to_end(key)
                    found[key] = self._blocks[key]
                elif key in self._pending:
                    waiting[key] = self._pending[key]
                else:
                    mine[key] = file
                    waiting[key] = self._pending[key] = Future()
        answers: dict[_Block, bytes | BaseException] = {}
        try:
            if mine:
                answers = self._fetch(mine)
        except Exception as error:
            answers = dict.fromkeys(mine, error)
            raise
        finally:
            self._settle({key: answers.get(key, _lost(key)) for key in mine})
        # Every block that this thread requested is settled, so threads never wait for each other in a circle.
        return found | {key: block.result() for key, block in waiting.items()}

    def _settle(self, answers: Mapping[_Block, bytes | BaseException]) -> None:
        """Keep the blocks, drop the oldest, and wake the threads that wait."""
        with self._lock:
            pending = {key: self._pending.pop(key) for key in answers}
            for key, answer in answers.items():
                if isinstance(answer, bytes):
                    self._blocks[key] = answer
                    self._n_bytes += len(answer)
            while self._n_bytes > self.limit_bytes:
                self._n_bytes -= len(self._blocks.popitem(last=False)[1])
        for key, answer in answers.items():
            if isinstance(answer, bytes):
                pending[key].set_result(answer)
            else:
                pending[key].set_exception(answer)

    def _fetch(self, missing: Mapping[_Block, Any]) -> dict[_Block, bytes | BaseException]:
        """Return these blocks from the disk, or else from the servers, with one call for each file system."""
        disk = self.disk
        kept = {} if disk is None else {key: disk.get(self._name(key)) for key in missing}
        answers: dict[_Block, bytes | BaseException] = {key: block for key, block in kept.items() if block is not None}
        runs = self._runs(sorted(missing.keys() - answers.keys()), missing)
        requests = [self._request(run, missing[run[0]]) for run in runs]
        by_system: dict[int, list[int]] = {}
        for number, run in enumerate(runs):
            by_system.setdefault(id(missing[run[0]].fs), []).append(number)
        for numbers in by_system.values():
            files = [missing[runs[number][0]] for number in numbers]
            data = get_ranges(files[0].fs, [requests[number] for number in numbers])
            files[0].check_unchanged(files)
            for number, answer in zip(numbers, data, strict=True):
                self._fetched_bytes += 0 if isinstance(answer, Exception) else len(answer)
                answers |= self._cut(runs[number], answer)
        if disk is not None:
            disk.put({self._name(key): block for key, block in answers.items()
                      if isinstance(block, bytes) and kept[key] is None and missing[key].is_versioned})  # fmt: skip
        return answers

    def _runs(self, keys: Sequence[_Block], files: Mapping[_Block, Any]) -> list[list[_Block]]:
        """Return the keys in runs of neighbors; each run is one request."""
        runs: list[list[_Block]] = []
        most = max(1, _MOST_REQUEST_BYTES // self.block_bytes)
        for key in keys:
            last = runs[-1][-1] if runs else None
            if last is not None and last == key._replace(number=key.number - 1) and len(runs[-1]) < most:
                runs[-1].append(key)
            else:
                runs.append([key])
        return runs

    def _request(self, run: Sequence[_Block], file: Any) -> RangeRequest:
        offset = run[0].number * self.block_bytes
        length = min(file.size, (run[-1].number + 1) * self.block_bytes) - offset
        request: RangeRequest = file.request(offset, length)
        return request

    def _cut(self, run: Sequence[_Block], answer: bytes | Exception) -> dict[_Block, bytes | BaseException]:
        if isinstance(answer, Exception) or len(run) == 1:
            return dict.fromkeys(run, answer)
        size = self.block_bytes
        return {key: answer[place * size : (place + 1) * size] for place, key in enumerate(run)}

    def _name(self, key: _Block) -> str:
        return "\n".join([*key.file, str(self.block_bytes), str(key.number)])


def _lost(key: _Block) -> OSError:
    return OSError(f"{key.file[0]!r}: the request for block {key.number} was interrupted")


_CURRENT = threading.local()


def current_cache() -> BlockCache | None:
    """Return the cache that this thread reads remote files through; `None` if each range is a request."""
    return getattr(_CURRENT, "cache", None)


@contextmanager
def reading_through(cache: BlockCache | None) -> Iterator[None]:
    """Let this thread read remote files through a cache."""
    before, _CURRENT.cache = current_cache(), cache
    try:
        yield
    finally:
        _CURRENT.cache = before
