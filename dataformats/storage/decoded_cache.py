"""DecodedCache: decoded blocks and chunks that are kept, so that each is decoded once for many reads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
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
        return self.get_many([key], lambda _: [decode()])[0]

    def get_many(self, keys: Sequence[Key], decode: Callable[[list[Key]], Sequence[tuple[Value, int]]]) -> list[Value]:
        """Return the values of different keys.

        Args:
            keys: Identify the values.
            decode: Returns the value and its bytes of each key that is not kept, as `decode` of `get`.
        """
        found: dict[Key, Value] = {}
        mine: dict[Key, Future[Value]] = {}
        others: dict[Key, Future[Value]] = {}
        with self._lock:
            for key in keys:
                if (kept := self._kept.get(key)) is not None:
                    self._kept.move_to_end(key)
                    found[key] = kept[0]
                elif key in self._pending:
                    others[key] = self._pending[key]
                else:
                    mine[key] = self._pending[key] = Future()
        if mine:
            found |= self._decode(mine, decode)  # before the wait: another thread may wait for these
        return [found[key] if key in found else others[key].result() for key in keys]

    def _decode(
        self, futures: dict[Key, Future[Value]], decode: Callable[[list[Key]], Sequence[tuple[Value, int]]]
    ) -> dict[Key, Value]:
        try:
            decoded = dict(zip(futures, decode(list(futures)), strict=True))
        except BaseException as error:
            with self._lock:
                for key, future in futures.items():
                    self._pending.pop(key, None)
                    future.set_exception(error)
            raise
        with self._lock:
            for key, (value, n_bytes) in decoded.items():
                self._pending.pop(key, None)
                self._kept[key] = value, n_bytes
                self._n_bytes += n_bytes
            while self._n_bytes > self.limit_bytes and len(self._kept) > 1:
                self._n_bytes -= self._kept.popitem(last=False)[1][1]
        for key, future in futures.items():
            future.set_result(decoded[key][0])
        return {key: value for key, (value, _) in decoded.items()}
