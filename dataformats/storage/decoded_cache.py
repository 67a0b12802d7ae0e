"""DecodedCache: decoded blocks and chunks that are kept, so that each is decoded once for many reads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from dataformats.fork_hooks import after_fork

__all__ = ["DecodedCache"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


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

    def get(self, key: Key, decode: Callable[[], tuple[Value, int]]) -> Value:
        """Return the value of a key.

        Args:
            key: Identifies the value.
            decode: Returns the value and its bytes; called if it is not kept. It must get no other value of the cache.
        """
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
            is_mine = key not in self._pending
            future = self._pending.setdefault(key, Future())
        return self._decode(key, future, decode) if is_mine else future.result()

    def _decode(self, key: Key, future: Future[Value], decode: Callable[[], tuple[Value, int]]) -> Value:
        try:
            value, n_bytes = decode()
        except BaseException as error:
            with self._lock:
                self._pending.pop(key, None)
            future.set_exception(error)
            raise
        with self._lock:
            self._pending.pop(key, None)
            self._kept[key] = value, n_bytes
            self._n_bytes += n_bytes
            while self._n_bytes > self.limit_bytes and len(self._kept) > 1:
                self._n_bytes -= self._kept.popitem(last=False)[1][1]
        future.set_result(value)
        return value
