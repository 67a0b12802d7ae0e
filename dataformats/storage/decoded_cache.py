"""DecodedCache: the decoded bytes that a process keeps, so that each block is decoded once for many reads."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from dataformats.errors import DataFormatsError
from dataformats.fork_hooks import after_fork
from dataformats.integer_arguments import checked_int

Owner = weakref.ref[Any]
"""The object that values of a cache belong to."""

Key = TypeVar("Key", bound=tuple[Any, ...])
Value = TypeVar("Value")
_Decode = Callable[[list[Key]], Sequence[tuple[Value, int]]]

_VARIABLE = "DATAFORMATS_DECODED_CACHE_BYTES"
_DEFAULT_BYTES = 640 * 2**20  # two windows of a loader, and the blocks at their ends
_ENTRY_BYTES = 512  # are added to the bytes of each value, for its objects: values may be empty


class _InterruptedDecodeError(Exception):
    """The thread that decoded a value was interrupted, as by Ctrl-C: those that wait for it decode it themselves."""


class DecodedCache:
    """Keeps what was decoded; the least recently used values are dropped. Thread-safe; empty after a fork.

    A key begins with the owner of its value, `owner(thing)`: a file or a table. Values are dropped with their owner.

    A value that several threads need is decoded once. One that cannot be decoded raises in each read that needs it. No
    lock is held meanwhile. A value that is dropped lives on in the reads that have got it.

    Args:
        limit_bytes: The most bytes that are kept, besides the value that was decoded last.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: int = limit_bytes
        self._gone: deque[Owner] = deque()  # owners whose values are to be dropped
        self._forget()
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
        self._keys: dict[Owner, set[tuple[Any, ...]]] = {}
        self._pending: dict[tuple[Any, ...], Future[Any]] = {}
        self._n_bytes = 0

    def owner(self, thing: object) -> Owner:
        """Return the first item of the keys of a thing; its values are dropped when it is collected."""
        owner = weakref.ref(thing, self.drop)
        hash(owner)  # is kept; once `thing` is collected it has none
        return owner

    def drop(self, owner: Owner) -> None:
        """Drop the values of an owner: now, or in the next call if the lock is taken, perhaps below a finalizer."""
        self._gone.append(owner)
        if self._lock.acquire(blocking=False):
            try:
                self._drop_gone()
            finally:
                self._lock.release()

    def resize(self, limit_bytes: int) -> None:
        """Set the limit, and drop values until they fit."""
        with self._lock:
            self.limit_bytes = limit_bytes
            self._evict()

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._kept

    def get(self, keys: Sequence[tuple[Any, ...]]) -> list[Any] | None:
        """Return the values of keys; `None` if one is not kept."""
        with self._lock:
            self._drop_gone()
            kept = self._kept
            if not all(key in kept for key in keys):
                return None
            for key in keys:
                kept.move_to_end(key)
            return [kept[key][0] for key in keys]

    def get_many(self, keys: Sequence[Key], decode: _Decode[Key, Value]) -> list[Value]:
        """Return the values of keys.

        Args:
            keys: Identify the values; each is there once.
            decode: Returns value and bytes of keys that are not kept. It must get no other value of the cache.
        """
        found: dict[Key, Value] = {}
        with self._lock:
            self._drop_gone()
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    found[key] = self._kept[key][0]
            mine = {key: Future[Value]() for key in keys if key not in found and key not in self._pending}
            self._pending |= mine
            futures = {key: self._pending[key] for key in keys if key not in found}
        if mine:
            self._decode(mine, decode)  # before the wait: another thread may wait for these
        return [found[key] if key in found else self._result(key, futures[key], decode) for key in keys]

    def _result(self, key: Key, future: Future[Value], decode: _Decode[Key, Value]) -> Value:
        try:
            return future.result()
        except _InterruptedDecodeError:
            return self.get_many([key], decode)[0]

    def _decode(self, futures: dict[Key, Future[Value]], decode: _Decode[Key, Value]) -> None:
        try:
            decoded = dict(zip(futures, decode(list(futures)), strict=True))
        except BaseException as error:
            with self._lock:
                for key in futures:
                    self._pending.pop(key, None)
            for future in futures.values():
                future.set_exception(error if isinstance(error, Exception) else _InterruptedDecodeError())
            raise
        with self._lock:
            for key, (value, n_bytes) in decoded.items():
                self._pending.pop(key, None)
                self._kept[key] = value, n_bytes + _ENTRY_BYTES
                self._keys.setdefault(key[0], set()).add(key)
                self._n_bytes += n_bytes + _ENTRY_BYTES
            self._evict()
        for key, (value, _) in decoded.items():
            futures[key].set_result(value)

    def _evict(self) -> None:
        while self._n_bytes > self.limit_bytes and len(self._kept) > 1:
            self._remove(next(iter(self._kept)))

    def _drop_gone(self) -> None:
        while self._gone:
            for key in [*self._keys.get(self._gone.popleft(), ())]:
                self._remove(key)

    def _remove(self, key: tuple[Any, ...]) -> None:
        self._n_bytes -= self._kept.pop(key)[1]
        keys = self._keys[key[0]]
        keys.remove(key)
        if not keys:
            del self._keys[key[0]]


def _chosen_bytes() -> int:
    text = os.environ.get(_VARIABLE) or str(_DEFAULT_BYTES)
    try:
        return checked_int(_VARIABLE, int(text) if text.isdecimal() else text, 0)
    except ValueError as error:
        raise DataFormatsError(str(error)) from None


DECODED_CACHE = DecodedCache(_chosen_bytes())
"""What this process keeps of all its sources."""


def set_decoded_cache_bytes(n_bytes: int) -> None:
    """Set how many decoded bytes this process keeps.

    Gzip and zstd files, compressed shards of MDS and litdata, Parquet, Arrow, CSV, HDF5 and Zarr are decoded in blocks,
    which are kept for the next reads. All sources of a process share one limit: 640 MiB, or the number in the
    environment variable `DATAFORMATS_DECODED_CACHE_BYTES`.

    Not counted are what `cache="memory"` holds, the blocks that a batch uses while it is read, and the states of
    decompressors in gzip files, from which reads continue: 40 to 56 KB each, 8,192 for all files together, and up to
    eight more for each file.

    The call also sets the environment variable, for worker processes: so call it before the first of them starts.

    Args:
        n_bytes: The most bytes that are kept; the block that was decoded last is kept in any case.

    Raises:
        ValueError: `n_bytes` is no whole number, or negative.

    Example:
        >>> import dataformats
        >>> dataformats.set_decoded_cache_bytes(640 * 2**20)
    """
    n_bytes = checked_int("n_bytes", n_bytes, 0)
    DECODED_CACHE.resize(n_bytes)
    os.environ[_VARIABLE] = str(n_bytes)
