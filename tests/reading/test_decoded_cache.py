"""The cache of decoded blocks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dataformats.storage import decoded_cache
from dataformats.storage.decoded_cache import DecodedCache
from tests.waiting import LIMIT_S, future_wait


def test_threads_decode_shared_keys_once() -> None:
    cache: DecodedCache[int, int] = DecodedCache(100)
    decoded: list[int] = []
    both_began = threading.Barrier(2, timeout=LIMIT_S)

    def decode(keys: list[int]) -> list[tuple[int, int]]:
        both_began.wait()
        decoded.extend(keys)
        return [(10 * key, 1) for key in keys]

    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda keys: cache.get_many(keys, decode), [[1, 2, 3], [4, 3, 2]])  # each has one of its own
        assert list(found) == [[10, 20, 30], [40, 30, 20]]
    assert sorted(decoded) == [1, 2, 3, 4]


def test_failed_keys_are_decoded_again() -> None:
    cache: DecodedCache[int, int] = DecodedCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get_many([1, 2], lambda keys: [(key // 0, 1) for key in keys])
    assert cache.get_many([2, 1], lambda keys: [(key, 1) for key in keys]) == [2, 1]
    assert cache.get_many([3], lambda keys: [(3, 1)]) == [3]
    assert cache.get_many([1, 2], lambda keys: [(-key, 1) for key in keys]) == [1, -2]


def test_waiting_threads_decode_the_keys_of_an_interrupted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes in one thread; the others must neither stop nor wait."""
    cache: DecodedCache[int, int] = DecodedCache(2)
    begun, waiting = threading.Event(), future_wait(decoded_cache, monkeypatch)

    def interrupted(keys: list[int]) -> list[tuple[int, int]]:
        begun.set()
        assert waiting.wait(LIMIT_S)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_many, [1], interrupted)
        assert begun.wait(LIMIT_S)
        second = pool.submit(cache.get_many, [1], lambda keys: [(10 * key, 1) for key in keys])
        assert isinstance(first.exception(LIMIT_S), KeyboardInterrupt)
        assert second.result(LIMIT_S) == [10]
