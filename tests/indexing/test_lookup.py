"""Lookup of extents by record number: flat or by blocks, with the same answers, and bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.indexing import lookup
from dataformats.indexing.block_file import ROWS
from dataformats.indexing.file_index import FileIndex, LazyProblems
from dataformats.indexing.lookup import InMemoryLookup, Lookup, PagedLookup
from dataformats.interfaces import Extents


def file_index(file: int, n: int, *, stored: bool = True) -> FileIndex:
    """Every number tells the file and the record; each 97th record is a problem."""
    at = np.arange(n)
    wrong = at % 97 == 5
    problems = LazyProblems(wrong, lambda position: FormatError(f"{file}:{position}"))
    checksums = (at * 7 + file).astype(np.uint32) if stored else None
    return FileIndex(at + 1000 * file, at % 13 + file, checksums, problems)


def expected(counts: list[int], indices: NDArray[np.int64], stored: bool) -> Extents:
    parts = [file_index(file, n, stored=stored) for file, n in enumerate(counts)]
    pairs = [(file, record) for file, n in enumerate(counts) for record in range(n)]
    found = [pairs[index] for index in indices.tolist()]
    return Extents(
        np.array([file for file, _ in found], np.int32),
        np.array([parts[file].offset[record] for file, record in found], np.int64),
        np.array([parts[file].length[record] for file, record in found], np.int64),
        stored=np.array([parts[file].stored[record] for file, record in found], np.uint32) if stored else None,
        problems={at: parts[f].problems[r] for at, (f, r) in enumerate(found) if r in parts[f].problems},
    )


def assert_same(found: Extents, right: Extents) -> None:
    assert np.array_equal(found.file, right.file)
    assert np.array_equal(found.offset, right.offset)
    assert np.array_equal(found.length, right.length)
    if len(right.file):  # a lookup of no records has no checksums
        assert (found.stored is None) == (right.stored is None)
        assert found.stored is None or right.stored is None or np.array_equal(found.stored, right.stored)
    assert {at: str(error) for at, error in found.problems.items()} == {
        at: str(error) for at, error in right.problems.items()
    }


def starts_of(counts: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 2 * ROWS + 3), min_size=1, max_size=5), st.booleans(), st.booleans(), st.integers(0, 2**32)
)
def test_flat_and_by_blocks(counts: list[int], stored: bool, local: bool, seed: int) -> None:
    starts, rng = starts_of(counts), np.random.default_rng(seed)
    tables = [file_index(file, n, stored=stored) for file, n in enumerate(counts)]

    def part(file: int, first: int, stop: int) -> FileIndex:
        return tables[file].part(first, stop)

    lookups: list[Lookup] = [
        InMemoryLookup(starts),
        PagedLookup(starts, local=local),
        PagedLookup(starts, local=local, held_bytes=0),
    ]
    for size in (0, 1, 40, 3000):
        indices = rng.integers(0, starts[-1], size) if starts[-1] else np.zeros(0, np.int64)
        for one in lookups:
            assert_same(one.find(indices, part), expected(counts, indices, stored))


def test_many_blocks_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_AT_ONCE", 3)
    counts = [5 * ROWS + 1, 0, 4 * ROWS, 7]
    indices = np.random.default_rng(0).permutation(sum(counts))
    held = PagedLookup(starts_of(counts), local=True, held_bytes=20_000)
    found = held.find(indices, lambda file, first, stop: file_index(file, counts[file]).part(first, stop))
    assert_same(found, expected(counts, indices, True))


def counting(counts: list[int]) -> tuple[Callable[[int, int, int], FileIndex], list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def part(file: int, first: int, stop: int) -> FileIndex:
        asked.append((file, first))
        return file_index(file, counts[file]).part(first, stop)

    return part, asked


def test_only_the_last_used_blocks_are_held() -> None:
    counts = [100 * ROWS]
    part, asked = counting(counts)
    one = 20 * ROWS + lookup._BLOCK_EXTRA
    held = PagedLookup(starts_of(counts), local=True, held_bytes=10 * one)
    every = np.arange(0, counts[0], ROWS)
    for first in range(0, 100, 5):
        held.find(every[first : first + 5], part)
        assert len(held._held) <= 10
    assert len(asked) == 100
    held.find(every[90:], part)
    assert len(asked) == 100
    held.find(every[:1], part)
    held.find(every[91:], part)
    assert len(asked) == 101


def test_a_flat_one_reads_each_file_once_and_when_asked() -> None:
    counts = [50, 60, 70]
    part, asked = counting(counts)
    flat = InMemoryLookup(starts_of(counts))
    flat.find(np.array([55, 60, 109]), part)
    assert asked == [(1, 0)]
    threads = [threading.Thread(target=flat.find, args=(np.arange(180), part)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asked) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("kind", ["flat", "blocks"])
def test_unreadable_index_fails_only_its_own_records(kind: str) -> None:
    counts = [10, 10, 10]
    starts = starts_of(counts)

    def part(file: int, first: int, stop: int) -> FileIndex:
        if file == 1:
            raise FormatError("broken")
        return file_index(file, 10).part(first, stop)

    one = InMemoryLookup(starts) if kind == "flat" else PagedLookup(starts, local=True)
    found = one.find(np.arange(0, 30, 3), part)
    right = expected(counts, np.arange(0, 30, 3), True)
    assert found.problems.keys() == {4, 5, 6}
    others = np.flatnonzero(found.file != 1)
    assert np.array_equal(found.offset[others], right.offset[others])


def test_parts_of_an_index_have_its_problems() -> None:
    whole = file_index(3, 200)
    part = whole.part(100, 150)
    assert np.array_equal(part.offset, whole.offset[100:150])
    assert {at: str(error) for at, error in part.problems.items()} == {2: "3:102"}
    plain = FileIndex(whole.offset, whole.length, None, dict(whole.problems)).part(100, 150)
    assert {at: str(error) for at, error in plain.problems.items()} == {2: "3:102"}
    assert plain.stored is None


def test_digests_are_of_lengths_and_checksums() -> None:
    offset, length, checksums = np.arange(3), np.array([5, 6, 7]), np.array([1, 2, 3], np.uint32)
    indexes = [
        FileIndex(offset, length, checksums),
        FileIndex(offset, length, checksums[::-1].copy()),
        FileIndex(offset, length),
        FileIndex(offset, length[::-1].copy(), checksums),
    ]
    assert len({index.digest for index in indexes}) == 4
    assert FileIndex(offset + 9, length, checksums).digest == indexes[0].digest
