"""Skipped positions agree with plain sets of positions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.loaders.skips import Skips
from dataformats.testing.loop_over import loop_over

BOUNDS = st.integers(0, 60)
RANGES = st.lists(st.tuples(BOUNDS, BOUNDS).map(lambda ends: (min(ends), max(ends))), max_size=8)


def positions_of(ranges: list[tuple[int, int]]) -> set[int]:
    return {position for first, last in ranges for position in range(first, last)}


@given(RANGES)
def test_ranges_are_merged_and_sorted(ranges: list[tuple[int, int]]) -> None:
    skips = Skips.of(ranges)

    assert positions_of(list(skips.ranges)) == positions_of(ranges)
    flat = [end for ends in skips.ranges for end in ends]
    assert flat == sorted(set(flat))


@given(RANGES)
def test_adding_one_by_one_agrees(ranges: list[tuple[int, int]]) -> None:
    skips = Skips()
    for first, last in reversed(ranges):
        skips = skips.add(first, last)

    assert skips == Skips.of(ranges)
    assert bool(skips) == bool(positions_of(ranges))


@given(RANGES, BOUNDS, BOUNDS, st.integers(0, 70))
def test_positions_and_count(ranges: list[tuple[int, int]], first: int, stop: int, n: int) -> None:
    skips = Skips.of(ranges)
    left_out = positions_of(ranges)
    remaining = [position for position in range(first, stop) if position not in left_out]

    assert skips.count(first, stop) == len(range(first, stop)) - len(remaining)
    found = skips.positions(first, stop, n)
    assert found.dtype == np.int64
    assert found.tolist() == remaining[:n]
    assert [skips.nth(first, number) for number in range(len(found))] == found.tolist()


def test_long_ranges_take_no_memory() -> None:
    skips = Skips.of([(10, 2**62)])

    assert skips.positions(5, 2**62, 100).tolist() == [5, 6, 7, 8, 9]
    assert skips.count(0, 2**62) == 2**62 - 10


def test_steps_go_around_a_range_in_the_middle() -> None:
    assert Skips.of([(3, 6)]).positions(1, 100, 5).tolist() == [1, 2, 6, 7, 8]


def test_numpy_integers_and_pickles() -> None:
    skips = Skips().add(np.int64(3), np.int64(5))  # type: ignore[arg-type]

    assert skips.ranges == ((3, 5),)
    assert type(skips.ranges[0][0]) is int
    assert skips.count(0, 10) == 2
    assert pickle.loads(pickle.dumps(skips)) == skips


@loop_over("first, last", [(5, 3), (-1, 3), (0, 2**62 + 1)])
def test_invalid_ranges(first: int, last: int) -> None:
    with pytest.raises(ValueError, match=f"found start={first}, stop={last}"):
        Skips().add(first, last)


def test_ends_must_be_integers() -> None:
    with pytest.raises(TypeError, match=r"expected two integers, found 1\.5 and 3"):
        Skips().add(1.5, 3)  # type: ignore[arg-type]
