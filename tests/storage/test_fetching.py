"""Reads of files that no engine reads: one call per remote file system, threads for the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from dataformats.errors import FormatError, TruncatedError
from dataformats.storage import piece_reads as fetching
from dataformats.storage.files import LocalFile
from dataformats.storage.path_objects import ObjectFile
from dataformats.storage.piece_reads import Piece, fetch
from dataformats.storage.remote import range_requests
from dataformats.storage.remote.files import FsspecFile
from tests.storage.remote.counting_store import CountingStore

DATA = np.random.default_rng(3).bytes(300_000)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_requests, "_WAITS_S", (0.0, 0.0, 0.0))


@pytest.fixture
def store() -> Iterator[CountingStore]:
    store = CountingStore()
    yield store
    store.fs.rm(store.folder, recursive=True)


def fetched(files: list[Any], rows: list[tuple[int, int, int]]) -> list[bytes]:
    """Fetch (file, offset, length) back to back; return the bytes of each."""
    places = np.cumsum([0, *(row[2] for row in rows)]).tolist()
    buffer = bytearray(places[-1])
    pieces = [
        Piece(files[file], offset, place, length)
        for (file, offset, length), place in zip(rows, places[:-1], strict=True)
    ]
    fetch(pieces, memoryview(buffer))
    return [bytes(buffer[first:last]) for first, last in pairwise(places)]


def test_one_call_for_all(store: CountingStore, tmp_path: Path) -> None:
    """Files of one file system are fetched in one call; other files are read by threads meanwhile."""
    (tmp_path / "local").write_bytes(DATA)
    files = [
        store.file("a", DATA),
        store.file("b", DATA[::-1]),
        LocalFile(tmp_path / "local"),
        ObjectFile(tmp_path / "local"),
    ]
    whole = [DATA, DATA[::-1], DATA, DATA]
    random = np.random.default_rng(4)
    rows = [(i % 4, int(random.integers(0, 290_000)), int(random.integers(0, 9000))) for i in range(400)]
    assert fetched(files, rows) == [whole[file][offset : offset + length] for file, offset, length in rows]
    files[3].release()
    assert [len(call) for call in store.calls] == [sum(1 for row in rows if row[0] < 2 and row[2])]


@pytest.mark.parametrize("length", [3, 100_000])
def test_one_call_for_many_ranges(store: CountingStore, length: int) -> None:
    file = store.file("many", DATA)
    ranges = [(7, length), (299_000, 5000), (150_000, length), (400_000, 9)]
    assert file.pread_many(ranges) == [DATA[first : first + n] for first, n in ranges]
    assert len(store.calls) == 1


def test_each_file_system_by_itself(store: CountingStore) -> None:
    other = CountingStore()
    files = [store.file("a", DATA), other.file("a", DATA)]
    try:
        assert fetched(files, [(0, 5, 10), (1, 6, 10)]) == [DATA[5:15], DATA[6:16]]
    finally:
        other.fs.rm(other.folder, recursive=True)
    assert (store.n_requests, other.n_requests) == (1, 1)


def test_empty_requests_make_no_calls(store: CountingStore) -> None:
    assert fetched([store.file("a", DATA)], [(0, 5, 0)]) == [b""]
    assert fetched([], []) == []
    assert store.calls == []


def test_large_pieces_are_asked_for_in_parts(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_SPLIT_BYTES", 1000)
    assert fetched([store.file("a", DATA)], [(0, 7, 123_456)]) == [DATA[7:123_463]]
    assert [len(call) for call in store.calls] == [124]


def test_truncated_object_raises(store: CountingStore) -> None:
    file = store.file("a", DATA)
    store.fs.pipe_file(f"{store.folder}/a", DATA[:1000])
    with pytest.raises(TruncatedError, match="the file ends early") as caught:
        fetched([file], [(0, 0, 10), (0, 990, 20)])
    assert (caught.value.path, caught.value.offset_bytes) == (file.name, 990)


def test_deleted_files(store: CountingStore) -> None:
    file = store.file("a", DATA)
    store.fs.rm(f"{store.folder}/a")
    with pytest.raises(FileNotFoundError) as caught:
        fetched([file], [(0, 4, 10)])
    assert caught.value.__notes__ == [f"while 10 bytes of {file.name!r} were read from byte 4 on"]


def test_too_long_answer_raises(store: CountingStore) -> None:
    """A server without range support sends the whole file."""
    store.answering = lambda name, start, answer: DATA
    with pytest.raises(FormatError, match="more bytes than requested"):
        fetched([store.file("a", DATA)], [(0, 4, 10)])


def test_caching_file_systems_are_read(store: CountingStore, tmp_path: Path) -> None:
    store.file("a", DATA)
    cached = fsspec.filesystem("simplecache", fs=store.fs, cache_storage=str(tmp_path))
    file = FsspecFile(cached, f"{store.folder}/a")
    assert fetched([file], [(0, 4, 10), (0, 299_990, 10)]) == [DATA[4:14], DATA[299_990:]]
