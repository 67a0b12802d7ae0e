"""The plan: each epoch of a component has each record once, any position is computed directly, orders are frozen."""

from __future__ import annotations

import functools
import itertools
import json
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataformats.loaders.plan import PLAN_VERSION, Place, Plan
from dataformats.loaders.shuffle import Epoch, Shuffle, group_rows
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

GLOBAL, NONE = Shuffle.of(True), Shuffle.of(False)
LENGTHS = [1, 2, 3, 10, 100, 1000, *(2**k + d for k in (2, 6, 7, 10) for d in (-1, 0, 1))]
WINDOWS = [Shuffle.of("window", block, window) for block, window in ((1, 16), (3, 5), (16, 1), (16, 4), (1000, 2))]
WINDOWS += [Shuffle.of("window", 3, 5, groups) for groups in (2, 7)]
PLANS = [
    Plan.of_one(1000, GLOBAL, 3),
    Plan.of_one(1000, Shuffle.of("window", 30, 4), 3),
    Plan.of_one(7, NONE, 3),
    Plan((10, 3, 1), 20, GLOBAL, 3, ((0, (3, 2, 1)), (31, (0, 0, 4)), (50, (1, 1, 1))), ("a", "b", "c")),
    Plan((50, 9), 20, Shuffle.of("window", 4, 2), 3, ((0, (3, 2)),), ("a", "b")),
    Plan.of_one(1000, Shuffle.of("window", 30, 4, 3), 3),
]


def same(a: Place, b: Place) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def at(place: Place, rows: NDArray[np.int64]) -> Place:
    return Place(*(part[rows] for part in place))


# ---- each record once


@loop_over("shuffle", [GLOBAL, NONE, *WINDOWS])
def test_an_epoch_has_each_record_once(shuffle: Shuffle) -> None:
    for n, seed in itertools.product(LENGTHS, (0, 1)):
        found = Plan.of_one(n, shuffle, seed).locate(range(3 * n))
        assert found.epoch.tolist() == np.repeat([0, 1, 2], n).tolist()
        assert not found.component.any()
        for walk in np.split(found.record, 3):
            assert np.array_equal(np.sort(walk), np.arange(n)), (n, seed)


def test_windows_of_every_size() -> None:
    for n, block, window, groups in itertools.product(range(1, 26), range(1, 6), range(1, 4), range(1, 4)):
        shuffle = Shuffle.of("window", block, window, groups)
        order = Plan.of_one(n, shuffle, n).locate(range(n)).record
        assert sorted(order.tolist()) == list(range(n)), (n, shuffle)
        check_windows(order, shuffle)


@loop_over("block, window, groups", [(64, 16, 1), (64, 16, 8), (1000, 3, 2), (4096, 1, 3), (1, 64, 7)])
def test_large_windows(block: int, window: int, groups: int) -> None:
    shuffle = Shuffle.of("window", block, window, groups)
    order = Plan.of_one(100_003, shuffle, 1).locate(range(100_003)).record
    assert np.array_equal(np.sort(order), np.arange(100_003))
    check_windows(order, shuffle)


def check_windows(order: NDArray[np.int64], shuffle: Shuffle) -> None:
    """Check each window: it has the records of some whole blocks, and of parts of at most two others."""
    n, epoch = len(order), Epoch(len(order), (1, 0, 0, 0))
    block, seen = shuffle.block_records, np.zeros(n, bool)
    while not seen.all():
        first = int(np.argmin(seen))
        (window,) = epoch.windows(np.array([first]), shuffle)
        places = np.array(window)
        assert first == places[0]
        assert len(places) <= min(block, n) * shuffle.window_blocks
        assert not seen[places].any()
        seen[places] = True
        records = np.sort(order[places])
        numbers, counts = np.unique(records // block, return_counts=True)
        full = np.minimum((numbers + 1) * block, n) - numbers * block
        assert np.count_nonzero(counts != full) <= 2
        runs = 1 + np.count_nonzero((np.diff(records) != 1) & (records[1:] % block != 0))
        assert runs <= 3  # a part of a block is one run


def test_streams_are_the_places_modulo_the_groups() -> None:
    shuffle = Shuffle.of("window", 4, 2, 3)
    plan = Plan.of_one(50, shuffle, 0)
    assert plan.streams(np.arange(100)).tolist() == [place % 3 for _ in range(2) for place in range(50)]
    both = Plan((50, 9), 20, shuffle, 3, ((0, (3, 2)),), ("a", "b"))
    place = both.locate(range(40))
    for component, n in enumerate(both.lengths):
        mine = np.flatnonzero(place.component == component)
        assert both.streams(np.arange(40))[mine].tolist() == [turn % n % 3 for turn in range(len(mine))]


def test_orders_of_epochs_seeds_and_components_are_unrelated() -> None:
    both = Plan((1000, 1000), 1000, GLOBAL, 0, ((0, (1, 1)),), ("a", "b")).locate(range(2000))
    orders = [Plan.of_one(1000, GLOBAL, seed).locate(range(e * 1000, (e + 1) * 1000)).record for seed, e in CASES]
    orders.append(both.record[both.component == 1])
    assert len({order.tobytes() for order in orders}) == len(orders)
    for one, other in itertools.combinations(orders, 2):
        assert np.count_nonzero(one == other) < 12  # one on the average


CASES = [(0, 0), (0, 1), (1, 0), (1, 1), (-1, 0), (10, 0), (1, 10), (2**70, 0)]


def test_a_component_alone_has_the_order_of_the_first_of_a_mixture() -> None:
    both = Plan((100, 50), 100, GLOBAL, 4, ((0, (1, 1)),), ("a", "b")).locate(range(200))
    alone = Plan.of_one(100, GLOBAL, 4).locate(range(100))
    assert np.array_equal(both.record[both.component == 0], alone.record)


# ---- any position, directly


@functools.cache
def all_of(plan: Plan) -> Place:
    return plan.locate(range(3000))


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
@given(positions=st.lists(st.integers(0, 2999), max_size=60))
@settings(deadline=None, max_examples=share(60))
def test_any_positions_agree_with_all_positions(plan: Plan, positions: list[int]) -> None:
    rows = np.array(positions, np.int64)
    everything = all_of(plan)
    assert same(plan.locate(positions), at(everything, rows))
    ascending = np.sort(rows)
    component, record = plan.records(ascending)
    expected = plan.locate(ascending)
    assert record.tolist() == expected.record.tolist()
    assert (np.zeros_like(record) if component is None else component).tolist() == expected.component.tolist()
    assert same(plan.locate(rows[:1]), at(everything, rows[:1]))


@loop_over("shuffle", [GLOBAL, NONE, Shuffle.of("window", 64, 16, 3)])
def test_batches_of_neighboring_runs(shuffle: Shuffle) -> None:
    plan = Plan.of_one(40_000, shuffle, 5)
    for first, step in itertools.product((0, 16_300, 16_384, 32_767, 39_744), (1, 70)):
        positions = np.arange(first, first + 256 * step, step)
        for epoch in (0, 40_000):
            assert plan.records(positions + epoch)[1].tolist() == plan.locate(positions + epoch).record.tolist()


def test_each_epoch_of_a_small_component() -> None:
    plan = PLANS[3]
    found = all_of(plan)
    for component, n in enumerate(plan.lengths):
        mine = at(found, np.flatnonzero(found.component == component))
        assert np.array_equal(mine.epoch, np.arange(len(mine.epoch)) // n)
        for walk in np.split(mine.record, range(n, len(mine.record), n))[:-1]:
            assert sorted(walk.tolist()) == list(range(n))


@loop_over("shuffle", [GLOBAL, NONE, Shuffle.of("window")])
def test_far_positions(shuffle: Shuffle) -> None:
    for n in (1, 10**9, 2**62 - 1):
        found = Plan.of_one(n, shuffle, 0).locate([2**62 - 1, 0, 2**61])
        assert found.epoch.tolist() == [(2**62 - 1) // n, 0, 2**61 // n]
        assert ((found.record >= 0) & (found.record < n)).all()
    pair = Plan((3, 10**12), 10**9, shuffle, 0, ((0, (2**31 - 2, 1)),), ("a", "b"))
    found = pair.locate([2**62 - 1, 2**62 - 2])
    assert ((found.record >= 0) & (found.record < np.array(pair.lengths)[found.component])).all()


@pytest.mark.parametrize("shuffle", [GLOBAL, Shuffle.of("window")], ids=lambda s: s.kind)
def test_memory_does_not_grow_with_the_data(shuffle: Shuffle) -> None:
    positions = np.arange(256) + 10**9 // 3
    Plan.of_one(1000, shuffle, 0).locate(positions % 1000)
    tracemalloc.start()
    try:
        Plan.of_one(10**9, shuffle, 0).locate(positions)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_plan_pickles_small() -> None:
    for plan in PLANS:
        found = plan.locate(range(500))
        pickled = pickle.dumps(plan)
        assert len(pickled) < 4096
        assert pickle.loads(pickled) == plan
        assert same(pickle.loads(pickled).locate(range(500)), found)


def test_no_positions() -> None:
    for plan in PLANS:
        found = plan.locate([])
        assert [f"{part.dtype}{part.shape}" for part in found] == ["int64(0,)"] * 3


def test_group_rows() -> None:
    a, b = np.array([1, 2, 1, 2, 1]), np.array([5, 5, 5, 6, 5])
    assert sorted(rows.tolist() for rows in group_rows(a, b)) == [[0, 2, 4], [1], [3]]  # type: ignore[union-attr]
    assert [a[:1][rows].tolist() for rows in group_rows(a[:1])] == [[1]]
    assert list(group_rows(a[:0], b[:0])) == []


# ---- frozen: a change of these breaks the order of every resumed training run


def test_version_1_is_frozen() -> None:
    def order(shuffle: Shuffle, seed: int, first: int = 0) -> list[int]:
        return list(Plan.of_one(12, shuffle, seed, version=1).locate(range(first, first + 12)).record)

    assert PLAN_VERSION == 1
    assert order(GLOBAL, 0) == [11, 4, 3, 6, 0, 7, 1, 5, 10, 8, 9, 2]
    assert order(GLOBAL, 0, 12) == [5, 10, 4, 11, 2, 9, 6, 7, 1, 0, 3, 8]
    assert order(GLOBAL, 1) == [5, 3, 2, 10, 9, 0, 6, 11, 1, 8, 4, 7]
    assert order(GLOBAL, -(10**30)) == [7, 4, 3, 1, 11, 8, 0, 6, 10, 2, 9, 5]
    assert order(Shuffle.of("window", 3, 2), 0) == [6, 3, 8, 4, 7, 5, 2, 1, 0, 11, 10, 9]
    assert order(Shuffle.of("window", 5, 2), 0, 12) == [1, 5, 8, 0, 11, 7, 10, 9, 2, 6, 4, 3]
    assert order(Shuffle.of("window", 3, 2, 2), 0) == [6, 1, 3, 11, 8, 2, 4, 0, 7, 10, 5, 9]
    assert order(NONE, 0) == list(range(12))


def test_large_orders_of_version_1_are_frozen() -> None:
    far = [0, 1, 10**8, 10**9 - 1, 10**9, 10**12]
    found = Plan.of_one(10**9, GLOBAL, 42, version=1).locate(far)
    assert found.record.tolist() == [896349441, 10092623, 55407387, 626507092, 872595592, 770186414]
    found = Plan.of_one(10**9 - 5, Shuffle.of("window"), 42, version=1).locate(far)
    assert found.record.tolist() == [213450622, 388961864, 198178395, 737079460, 295144394, 776776916]


def test_mixtures_of_version_1_are_frozen() -> None:
    plan = Plan((5, 4, 3), 9, GLOBAL, 7, ((0, (3, 2, 1)), (10, (1, 0, 1))), ("a", "b", "c"), 1)
    found = plan.locate(range(20))
    assert "".join("abc"[c] for c in found.component) == "abacbaabacacacacacac"
    assert found.epoch.tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 2]
    assert found.record.tolist() == [4, 1, 3, 0, 0, 1, 0, 3, 2, 1, 2, 2, 1, 1, 4, 2, 3, 0, 0, 1]


# ---- refused arguments


@pytest.mark.parametrize("plan", PLANS[:4:3], ids=["one", "mixture"])
def test_invalid_positions(plan: Plan) -> None:
    for wrong in (-1, 2**62, 2**63 - 1):
        with pytest.raises(ValueError, match=rf"^position {wrong} is out of range: expected one in \[0, 2\*\*62\)$"):
            plan.locate([0, wrong])
    with pytest.raises(ValueError, match=r"^position 18446744073709551615 is out of range"):
        plan.locate(np.array([2**64 - 1], np.uint64))
    for kind in ([0.5], [[1]], ["a"], [True], [None]):
        with pytest.raises(TypeError, match=r"^positions: expected a list of whole numbers, found "):
            plan.locate(kind)  # type: ignore[arg-type]


def test_invalid_plans() -> None:
    for length in (0, -1, 2**62):
        with pytest.raises(ValueError, match=r"^expected 1 to 2\*\*62 - 1 records, found "):
            Plan.of_one(length, GLOBAL, 0)
    with pytest.raises(ValueError, match=r"^unknown plan version: expected 1, found 2$"):
        Plan.of_one(5, GLOBAL, 0, version=2)
    with pytest.raises(ValueError, match=r"^expected a name for each of 2 components"):
        Plan((1, 1), 1, GLOBAL, 0, ((0, (1, 1)),), ("a",))
    for starts in ([], [1], [0, 0], [0, 5, 3]):
        with pytest.raises(ValueError, match=r"^expected weights by ascending position, the first at 0, found "):
            Plan((5,), 5, GLOBAL, 0, tuple((start, (1,)) for start in starts))
    with pytest.raises(ValueError, match=r"^component 'source': expected a weight of 0 or more, found -1$"):
        Plan((5,), 5, GLOBAL, 0, ((0, (-1,)),))


def test_shuffles() -> None:
    for shuffle in (GLOBAL, NONE, *WINDOWS):
        assert Shuffle.from_json(json.loads(json.dumps(shuffle.to_json()))) == shuffle
    for wrong in ("global", "yes", None, 1, 0, "block"):
        with pytest.raises(ValueError, match=r"^shuffle: expected 'auto', True, False or 'window', found "):
            Shuffle.of(wrong)
    for size in (0, -1, 2**31, 1.0, True, "4"):
        with pytest.raises(ValueError, match=r"^block_records: expected a whole number in "):
            Shuffle.of("window", size)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^window_blocks: expected a whole number in "):
            Shuffle.of("window", 1024, size)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^groups: expected a whole number in "):
            Shuffle.of("window", 1024, 16, size)  # type: ignore[arg-type]
    forms: list[object] = [
        "window",
        ["window"],
        ["window", 5],
        [True, 5, 5],
        None,
        {},
        ["window", 5, 5],
        ["window", 0, 1, 1],
        ["global", 1, 1],
    ]
    for form in forms:
        with pytest.raises(ValueError, match="found"):
            Shuffle.from_json(form)
