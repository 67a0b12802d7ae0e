"""DecodedCache: decoded blocks and chunks that are kept, so that each is decoded once for many reads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from dataformats.fork_hooks import after_fork

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _InterruptedDecodeError(Exception):
    """The thread that decoded a value was interrupted, as by Ctrl-C: those that wait for it decode it themselves."""


class DecodedCache(Generic[Key, Value]):
    """Keeps what was decoded; the least recently used values are dropped. Thread-safe; empty after a fork or a pickle.

    A value that several threads need is decoded once. One that cannot be decoded raises in each read that needs it.

    Args:
        limit_bytes: The most bytes that are kept, besides the value that was decoded last.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.forget()
        after_fork(self, "forget")

    def __reduce__(self) -> tuple[type[DecodedCache[Key, Value]], tuple[int]]:
        return type(self), (self.limit_bytes,)

    def forget(self) -> None:
        """Drop all values."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._pending: dict[Key, Future[Value]] = {}
        self._n_bytes = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def get(self, keys: Sequence[Key]) -> list[Value] | None:
        """Return the values of keys; `None` if one is not kept."""
        with self._lock:
            kept = self._kept
            if not all(key in kept for key in keys):
                return None
            for key in keys:
                kept.move_to_end(key)
            return [kept[key][0] for key in keys]

    def get_many(self, keys: Sequence[Key], decode: Callable[[list[Key]], Sequence[tuple[Value, int]]]) -> list[Value]:
        """Return the values of keys.

        Args:
            keys: Identify the values; each is there once.
            decode: Returns value and bytes of keys that are not kept. It must get no other value of the cache.
        """
        found: dict[Key, Value] = {}
        with self._lock:
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

    def _result(
        self, key: Key, future: Future[Value], decode: Callable[[list[Key]], Sequence[tuple[Value, int]]]
    ) -> Value:
        try:
            return future.result()
        except _InterruptedDecodeError:
            return self.get_many([key], decode)[0]

    def _decode(
        self, futures: dict[Key, Future[Value]], decode: Callable[[list[Key]], Sequence[tuple[Value, int]]]
    ) -> None:
        try:
            decoded = decode(list(futures))
        except BaseException as error:
            with self._lock:
                for key in futures:
                    self._pending.pop(key, None)
            for future in futures.values():
                future.set_exception(error if isinstance(error, Exception) else _InterruptedDecodeError())
            raise
        with self._lock:
            for key, (value, n_bytes) in zip(futures, decoded, strict=True):
                self._pending.pop(key, None)
                self._kept[key] = value, n_bytes
                self._n_bytes += n_bytes
            while self._n_bytes > self.limit_bytes and len(self._kept) > 1:
                self._n_bytes -= self._kept.popitem(last=False)[1][1]
        for future, (value, _) in zip(futures.values(), decoded, strict=True):
            future.set_result(value)
