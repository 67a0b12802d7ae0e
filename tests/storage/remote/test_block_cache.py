"""Blocks of remote files: requested once and together, bounded, and no error touches another block."""

from __future__ import annotations

import ctypes
import os
import pickle
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats.storage.piece_reads import Piece, fetch
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote import block_cache, range_requests
from dataformats.storage.remote.block_cache import BlockCache, FileRange
from dataformats.storage.remote.versions import Versions
from tests.storage.remote.counting_store import CountingStore
from tests.waiting import LIMIT_S, future_wait, wait_until

DATA = np.random.default_rng(3).bytes(10_050)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingStore]:
    monkeypatch.setattr(range_requests, "_WAITS_S", (0.0,))
    store = CountingStore()
    yield store
    store.fs.rm(store.folder, recursive=True)


def read(cache: BlockCache, *rows: tuple[Any, int, int]) -> list[bytes]:
    """Read (file, offset, length)."""
    out = [bytearray(length) for _, _, length in rows]
    cache.read([FileRange(file, at, memoryview(room)) for (file, at, _), room in zip(rows, out, strict=True)])
    return [bytes(room) for room in out]


def test_values(store: CountingStore) -> None:
    """Any reads in any order, including the short last block, return the right bytes."""
    files = [store.file("a", DATA), store.file("b", DATA[::-1])]
    random = np.random.default_rng(5)
    for limit in (0, 300, 100_000):
        cache = BlockCache(limit, 100)
        for _ in range(30):
            starts = random.integers(0, len(DATA), 5)
            rows = [(int(s % 2), int(s), int(random.integers(1, min(700, len(DATA) - s) + 1))) for s in starts]
            expected = [(DATA, DATA[::-1])[number][start : start + n] for number, start, n in rows]
            assert read(cache, *((files[number], start, n) for number, start, n in rows)) == expected
            assert cache._n_bytes == sum(len(block.data) for block in cache._blocks.values()) <= limit


def at_addresses(cache: BlockCache, *rows: tuple[Any, int, int]) -> list[bytes]:
    """Return the bytes in memory of (file, offset, length)."""
    files = dict(enumerate(file for file, _, _ in rows))
    offset, length = (np.array([row[column] for row in rows]) for column in (1, 2))
    found = cache.addresses(files, np.arange(len(rows)), offset, length)
    assert found is not None
    return [ctypes.string_at(int(address), n) for address, n in zip(found[0], length.tolist(), strict=True)]


@pytest.mark.parametrize("next_use", [None, lambda *_, **__: None])
def test_addresses(next_use: Any, store: CountingStore) -> None:
    """Ranges have the right bytes while blocks are dropped, and views keep little more memory than the limit."""
    files = [store.file("a", DATA), store.file("b", DATA[::-1])]
    random = np.random.default_rng(6)
    cache = BlockCache(2500, 100)
    cache.next_use = next_use
    for _ in range(60):
        starts = random.integers(0, len(DATA), 5)
        rows = [(int(s % 2), int(s), int(random.integers(1, min(500, len(DATA) - s) + 1))) for s in starts]
        ranges = [(files[number], start, n) for number, start, n in rows]
        cache.fetch(ranges[:3])
        expected = [(DATA, DATA[::-1])[number][start : start + n] for number, start, n in rows]
        assert at_addresses(cache, *ranges) == expected
        assert cache._n_bytes == sum(len(block.data) for block in cache._blocks.values()) <= 2500
        views: list[Any] = [block.data for block in cache._blocks.values() if block.address]
        assert bool(views) == (next_use is not None)
        answers = {id(view.obj): len(view.obj) for view in views}
        assert sum(answers.values()) <= 2500 + 500  # the last one is dropped in parts
    assert cache.addresses({0: files[0]}, np.zeros(1, int), np.zeros(1, int), np.array([2501])) is None


def test_missing_blocks_are_one_call_of_few_ranges(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    read(cache, (file, 250, 1), (file, 350, 1), (file, 799, 2), (file, 10_040, 10))
    assert store.calls == [[("a", 200, 400), ("a", 700, 900), ("a", 10_000, 10_050)]]
    read(cache, (file, 200, 300), (file, 710, 1))
    assert store.calls[1:] == [[("a", 400, 500)]]


def test_the_least_recently_used_blocks_are_dropped(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(300, 100)
    for at in (0, 100, 200, 0, 300, 0):
        read(cache, (file, at, 100))
    assert store.n_requests == 4
    read(cache, (file, 100, 100))
    assert store.n_requests == 5


def test_threads_share_requests(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    store.held.clear()
    with ThreadPoolExecutor(8) as threads:
        reads = [threads.submit(read, cache, (file, 100 * (n % 3), 200)) for n in range(8)]
        wait_until(lambda: len(cache._pending) == 4)
        store.held.set()
        assert [one.result() for one in reads] == [[DATA[100 * (n % 3) :][:200]] for n in range(8)]
    assert store.n_bytes == 400
    assert not cache._pending


def test_failing_block_fails_only_its_own_reads(store: CountingStore) -> None:
    """It is raised in all threads that wait for the block, and the block is requested again by the next read."""
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    store.answering = lambda name, start, answer: PermissionError("no") if start == 500 else answer
    with pytest.raises(PermissionError, match="no"):
        read(cache, (file, 0, 10), (file, 500, 10))
    store.answering = lambda name, start, answer: answer
    assert read(cache, (file, 0, 10)) == [DATA[:10]]
    assert store.n_requests == 2
    assert read(cache, (file, 500, 10)) == [DATA[500:510]]
    assert store.n_requests == 3


def test_an_interrupted_request_ends_the_waits_for_it(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    file = store.file("a", DATA)
    cache, waits = BlockCache(10_000, 100), future_wait(block_cache, monkeypatch)

    def interrupt(*_: Any) -> None:
        assert waits.wait(LIMIT_S)
        raise KeyboardInterrupt

    store.answering = interrupt
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(read, cache, (file, 0, 10))
        wait_until(lambda: cache._pending)
        second = threads.submit(read, cache, (file, 0, 10))
        with pytest.raises(OSError, match="was interrupted"):
            second.result()
        assert isinstance(first.exception(), KeyboardInterrupt)
    assert not cache._pending


def test_changed_file_raises(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Versions, "is_due", True)
    cache = BlockCache(10_000, 100)
    file = store.file("a", DATA)
    read(cache, (file, 0, 10))
    store.file("a", DATA[::-1])
    for _ in range(2):
        with pytest.raises(FormatError, match="replaced or changed"):
            read(cache, (file, 500, 10))
    with pytest.raises(FormatError, match="replaced or changed"):
        file.pread(300, 10)


def test_fetching_reads_through_the_cache_of_the_thread(store: CountingStore) -> None:
    file = store.file("a", DATA)
    buffer = bytearray(20)
    cache = BlockCache(10_000, 100)
    with READ_CONTEXT.reading_through(cache):
        for _ in range(2):
            fetch([Piece(file, 5, 0, 10), Piece(file, 950, 10, 10)], memoryview(buffer))
    assert bytes(buffer) == DATA[5:15] + DATA[950:960]
    assert store.calls == [[("a", 0, 100), ("a", 900, 1000)]]
    fetch([Piece(file, 5, 0, 10)], memoryview(buffer))
    assert store.calls[1:] == [[("a", 5, 15)]]


def test_a_read_of_more_than_the_limit_is_not_cached(store: CountingStore) -> None:
    file = store.file("a", DATA)
    buffer = bytearray(1000)
    with READ_CONTEXT.reading_through(BlockCache(999, 100)):
        fetch([Piece(file, 50, 0, 1000)], memoryview(buffer))
    assert store.calls == [[("a", 50, 1050)]]


def test_short_reads_of_headers_share_blocks(store: CountingStore) -> None:
    file = store.file("a", DATA)
    assert [file.pread(at, 10) for at in (0, 1000, 10_045)] == [DATA[:10], DATA[1000:1010], DATA[10_045:]]
    assert store.calls == [[("a", 0, 10_050)]]


def test_members_of_two_archives_with_one_name(tmp_path: Path) -> None:
    """Their names do not tell them apart, nor do their sizes."""
    sources = []
    for number in range(2):
        path = tmp_path / f"{number}.zip"
        with dataformats.create(tmp_path / "x.tfrecord", overwrite=True) as writer:
            writer.extend([bytes([number]) * (100 + 10 * number), bytes([number]) * (100 - 10 * number)] * 25)
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(tmp_path / "x.tfrecord", "x.tfrecord")
        sources.append(dataformats.open(f"zip://x.tfrecord::{path}"))
    assert [source[5] for source in sources] == [bytes(100), b"\1" * 90]
    for number, source in enumerate(sources):
        with dataformats.Loader(source, 10, shuffle=False) as loader:
            assert {value[0] for batch in loader for value in batch["value"]} == {number}


def test_pickles_are_empty_and_forked_children_too(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    read(cache, (file, 0, 10))
    copy = pickle.loads(pickle.dumps(cache))
    assert (copy.limit_bytes, copy.block_bytes, len(copy._blocks)) == (10_000, 100, 0)
    with cache._lock:  # another thread may hold it when the process forks
        child = os.fork()
        if not child:
            os._exit(0 if read(cache, (file, 0, 10)) == [DATA[:10]] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fetched_blocks_are_not_requested_again(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    for _ in range(2):
        cache.fetch([(file, 0, 250), (file, 300, 100), (file, 10_040, 10)])
    assert store.calls == [[("a", 0, 400), ("a", 10_000, 10_050)]]
    assert read(cache, (file, 10, 300), (file, 10_045, 5)) == [DATA[10:310], DATA[10_045:]]
    assert store.n_requests == 2


def test_failing_fetch_is_left_to_the_read(store: CountingStore) -> None:
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    store.answering = lambda name, start, answer: PermissionError("no") if start == 500 else answer
    cache.fetch([(file, 0, 10), (file, 500, 10)])
    assert read(cache, (file, 0, 10)) == [DATA[:10]]
    with pytest.raises(PermissionError, match="no"):
        read(cache, (file, 500, 10))
    store.answering = lambda name, start, answer: answer
    assert read(cache, (file, 500, 10)) == [DATA[500:510]]
    assert store.n_requests == 4


def test_a_long_fetch_is_several_calls(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read waits for the call that has its blocks, and not for the others."""
    monkeypatch.setattr(block_cache, "_PORTION_BYTES", 300)
    file = store.file("a", DATA)
    cache = BlockCache(10_000, 100)
    cache.fetch([(file, at, 100) for at in (800, 900, 0, 100, 200, 5000)])
    assert store.calls == [[("a", 0, 100), ("a", 800, 1000)], [("a", 100, 300), ("a", 5000, 5100)]]
