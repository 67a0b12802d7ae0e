"""The cache of decoded blocks: what it keeps of which owner, and what threads share."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import dataformats
from dataformats.storage import decoded_cache
from dataformats.storage.decoded_cache import DECODED_CACHE, DecodedCache, Owner
from dataformats.testing.loop_over import loop_over
from tests.waiting import LIMIT_S, future_wait

ENTRY = decoded_cache._ENTRY_BYTES
VARIABLE = "DATAFORMATS_DECODED_CACHE_BYTES"

Key = tuple[Owner, int]


class Thing:
    """An owner."""


class Big:
    """A value that a weak reference can watch."""


def times_ten(keys: list[Key]) -> list[tuple[int, int]]:
    return [(10 * number, 1) for _, number in keys]


def get(cache: DecodedCache, owner: Owner, *numbers: int) -> list[int]:
    return cache.get_many([(owner, number) for number in numbers], times_ten)


def kept(cache: DecodedCache, owner: Owner) -> list[int]:
    """Return the numbers of the values of an owner that are kept, checked against the sums of the cache."""
    assert {key for keys in cache._keys.values() for key in keys} == {*cache._kept}
    assert cache._n_bytes == sum(n_bytes for _, n_bytes in cache._kept.values())
    return sorted(number for _, number in cache._keys.get(owner, ()))


def test_threads_decode_shared_keys_once() -> None:
    cache, thing = DecodedCache(10**6), Thing()
    owner = cache.owner(thing)
    decoded: list[int] = []
    both_began = threading.Barrier(2, timeout=LIMIT_S)

    def decode(keys: list[Key]) -> list[tuple[int, int]]:
        both_began.wait()
        decoded.extend(number for _, number in keys)
        return times_ten(keys)

    def read(numbers: list[int]) -> list[int]:
        return cache.get_many([(owner, number) for number in numbers], decode)

    with ThreadPoolExecutor(2) as pool:
        found = pool.map(read, [[1, 2, 3], [4, 3, 2]])  # each has one of its own
        assert list(found) == [[10, 20, 30], [40, 30, 20]]
    assert sorted(decoded) == [1, 2, 3, 4]


@loop_over("decode", [lambda keys: 1 // 0, lambda keys: times_ten(keys)[:1]])
def test_failed_keys_are_decoded_again(decode: Callable[[list[Key]], Any]) -> None:
    cache, thing = DecodedCache(3 * ENTRY), Thing()
    owner = cache.owner(thing)
    with pytest.raises((ZeroDivisionError, ValueError)):
        cache.get_many([(owner, 1), (owner, 2)], decode)
    assert (kept(cache, owner), cache._pending) == ([], {})
    assert get(cache, owner, 2, 1) == [20, 10]


def test_waiting_threads_decode_the_keys_of_an_interrupted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes in one thread; the others must neither stop nor wait."""
    cache, thing = DecodedCache(10**6), Thing()
    owner = cache.owner(thing)
    begun, waiting = threading.Event(), future_wait(decoded_cache, monkeypatch)

    def interrupted(keys: list[Key]) -> list[tuple[int, int]]:
        begun.set()
        assert waiting.wait(LIMIT_S)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_many, [(owner, 1)], interrupted)
        assert begun.wait(LIMIT_S)
        second = pool.submit(get, cache, owner, 1)
        assert isinstance(first.exception(LIMIT_S), KeyboardInterrupt)
        assert second.result(LIMIT_S) == [10]


def test_least_recently_used_values_are_dropped() -> None:
    cache, things = DecodedCache(3 * (ENTRY + 1)), [Thing(), Thing()]
    first, second = map(cache.owner, things)
    get(cache, first, 1, 2)
    get(cache, second, 1)
    assert cache.get([(first, 1)]) == [10]
    get(cache, second, 2)
    assert (kept(cache, first), kept(cache, second)) == ([1], [1, 2])
    assert cache.get([(first, 1), (first, 2)]) is None
    cache.resize(ENTRY + 1)
    assert (kept(cache, first), kept(cache, second)) == ([], [2])


@loop_over("limit_bytes", [0, 1, ENTRY])
def test_value_over_the_limit_is_kept_until_the_next_one(limit_bytes: int) -> None:
    cache, thing = DecodedCache(limit_bytes), Thing()
    owner = cache.owner(thing)
    assert get(cache, owner, 1, 2, 3) == [10, 20, 30]
    assert kept(cache, owner) == [3]
    assert get(cache, owner, 4, 3) == [40, 30]
    assert kept(cache, owner) == [4]


def test_values_without_bytes_are_limited() -> None:
    cache, thing = DecodedCache(100 * ENTRY), Thing()
    owner = cache.owner(thing)
    cache.get_many([(owner, number) for number in range(1000)], lambda keys: [(b"", 0)] * len(keys))
    assert kept(cache, owner) == [*range(900, 1000)]


def test_dropped_value_lives_as_long_as_a_reader_has_it() -> None:
    cache, thing = DecodedCache(0), Thing()
    owner = cache.owner(thing)
    (value,) = cache.get_many([(owner, 1)], lambda keys: [(Big(), 100)])
    watch = weakref.ref(value)
    get(cache, owner, 2)
    assert kept(cache, owner) == [2]
    assert watch() is not None
    del value
    assert watch() is None


def test_values_go_with_their_owner() -> None:
    cache, things = DecodedCache(10**6), [Thing(), Thing(), Thing()]
    owners = [cache.owner(thing) for thing in things]
    for owner in owners:
        get(cache, owner, 1, 2)
    cache.drop(owners[0])
    assert [kept(cache, owner) for owner in owners] == [[], [1, 2], [1, 2]]
    assert get(cache, owners[0], 1) == [10]
    things.pop(0)
    assert [kept(cache, owner) for owner in owners] == [[], [1, 2], [1, 2]]
    things[0].cycle = things[0]  # type: ignore[attr-defined]
    things.pop(0)
    gc.collect()
    assert [kept(cache, owner) for owner in owners] == [[], [], [1, 2]]


def test_owner_is_dropped_below_a_lock() -> None:
    """The garbage collector runs at any allocation, also in a thread that has the lock."""
    cache, thing, other = DecodedCache(10**6), Thing(), Thing()
    owner = cache.owner(thing)
    get(cache, owner, 1)
    with cache._lock:
        del thing
        assert kept(cache, owner) == [1]
    assert cache.get([(cache.owner(other), 1)]) is None
    assert kept(cache, owner) == []


def test_owner_without_values_may_go() -> None:
    cache = DecodedCache(10**6)
    owners = [cache.owner(Thing()) for _ in range(3)]
    assert not cache._gone
    assert [kept(cache, owner) for owner in owners] == [[], [], []]


@pytest.mark.parametrize("limit_bytes", [0, 20 * ENTRY, 10**9])
def test_many_threads_get_their_values(limit_bytes: int) -> None:
    """Reads of shared keys, evictions, failures, owners that are dropped or collected, all at once."""
    cache, shared = DecodedCache(limit_bytes), [Thing() for _ in range(3)]
    owners = [cache.owner(thing) for thing in shared]

    def decode(keys: list[Key]) -> list[tuple[int, int]]:
        if any(number % 17 == 13 for _, number in keys):
            raise LookupError
        return [(10 * number, number) for _, number in keys]

    def work(seed: int) -> None:
        noise = random.Random(seed)
        for _ in range(400):
            own = Thing()
            owner = noise.choice([*owners, cache.owner(own)])
            numbers = noise.sample(range(40), noise.randrange(1, 6))
            keys = [(owner, number) for number in numbers]
            with suppress(LookupError):  # of this thread, or of the one that decodes a shared key
                assert cache.get_many(keys, decode) == [10 * number for number in numbers]
            found = cache.get(keys)
            assert found is None or found == [10 * number for number in numbers]
            if not noise.randrange(20):
                cache.drop(noise.choice(owners))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    gc.collect()  # errors keep the frames in which they were raised
    cache.get([])
    assert not cache._pending
    assert {*cache._keys} <= {*owners}
    kept(cache, owners[0])
    assert cache._n_bytes <= limit_bytes or len(cache._kept) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_has_an_empty_cache() -> None:
    cache, thing = DecodedCache(10**6), Thing()
    owner = cache.owner(thing)
    get(cache, owner, 1)
    with cache._lock:  # as if another thread had it
        child = os.fork()
        if child == 0:
            is_empty = cache.get([(owner, 1)]) is None and get(cache, owner, 1) == [10]
            os._exit(0 if is_empty and kept(cache, owner) == [1] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kept(cache, owner) == [1]


def test_eviction_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the values that are looked at, instead of the time."""
    cache, things = DecodedCache(2000 * (ENTRY + 1)), [Thing() for _ in range(500)]
    removed: list[object] = []
    real = DecodedCache._remove

    def remove(self: DecodedCache, key: Any) -> None:
        removed.append(key)
        real(self, key)

    monkeypatch.setattr(DecodedCache, "_remove", remove)
    for owner in map(cache.owner, things):
        get(cache, owner, *range(20))
    assert len(removed) == 20 * 500 - 2000
    things.clear()
    assert len(removed) == 20 * 500
    assert not cache._kept


def test_limit_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = DECODED_CACHE.limit_bytes
    assert before == 640 * 2**20
    monkeypatch.setenv(VARIABLE, "1")
    try:
        dataformats.set_decoded_cache_bytes(12_345)
        assert (DECODED_CACHE.limit_bytes, os.environ[VARIABLE]) == (12_345, "12345")
        for wrong in (-1, 1.5, True, "1", None):
            with pytest.raises(ValueError, match="n_bytes: expected a whole number"):
                dataformats.set_decoded_cache_bytes(wrong)  # type: ignore[arg-type]
        assert DECODED_CACHE.limit_bytes == 12_345
    finally:
        DECODED_CACHE.resize(before)


@loop_over(
    "text, expected", [("4096", "4096"), ("", str(640 * 2**20)), ("1 GB", "expected a whole number"), ("-1", "")]
)
def test_limit_of_the_environment(text: str, expected: str) -> None:
    code = "from dataformats.storage.decoded_cache import DECODED_CACHE; print(DECODED_CACHE.limit_bytes)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, VARIABLE: text}, capture_output=True, text=True, check=False
    )
    if expected.isdecimal():
        assert done.stdout.strip() == expected, done.stderr
    else:
        assert f"DataFormatsError: {VARIABLE}: expected a whole number" in done.stderr
