"""No statistic distinguishes the orders of a plan, as the loader gets them, from ideal permutations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from dataformats.loaders import shuffle as shuffling
from dataformats.loaders.plan import Plan
from dataformats.loaders.shuffle import Shuffle
from tests.deep.statistics import permutation_statistics as statistics

GLOBAL = Shuffle.of(True)
MOST = 4.0  # deviations of a figure that are still chance
SAMPLE = 2**18
WHOLE = [2**k + d for k in (12, 16) for d in (-1, 0, 1)] + [10**4, 10**5]
LARGE = [2**20 - 1, 2**20, 2**20 + 1, 10**6, 1_281_167, 2**25, 10**8, 2**29 + 1, 10**9]
# (seed, epoch) of neighbors, and of pairs with equal sums
WALKS = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]

Order = NDArray[np.int64]


def span(n: int) -> tuple[int, int]:
    """All of an epoch, or part of the middle of a long one: first position, and number of positions."""
    return (0, n) if n < 2**17 else (n // 3, SAMPLE)


def walk(n: int, seed: int, epoch: int) -> Order:
    first, size = span(n)
    return Plan.of_one(n, GLOBAL, seed).locate(epoch * n + first + np.arange(size)).record


def all_figures(n: int) -> Iterator[tuple[str, float]]:
    orders = {case: walk(n, *case) for case in WALKS}
    for (seed, epoch), order in orders.items():
        for name, figure in statistics.figures(order, span(n)[0], n):
            yield f"{name}, seed {seed}, epoch {epoch}", figure
    for one, other in [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((1, 0), (2, 0)), ((0, 1), (1, 0)), ((0, 1), (1, 1))]:
        for name, figure in statistics.pair_figures(orders[one], orders[other], n):
            yield f"{name}, {one} and {other}", figure


def outliers(figures: Iterator[tuple[str, float]]) -> dict[str, float]:
    return {name: figure for name, figure in figures if not abs(figure) <= MOST}


@pytest.mark.parametrize("n", [*WHOLE, *LARGE])
def test_global_orders(n: int) -> None:
    assert outliers(all_figures(n)) == {}


def test_positions_spread_over_all() -> None:
    """An order of 10**9 is sampled at lags up to a third of the data: a sample of its middle has only short lags."""
    n, rng = 10**9, np.random.default_rng(0)
    plan, anywhere = Plan.of_one(n, GLOBAL, 0), rng.integers(0, n // 2, SAMPLE)
    here = plan.locate(anywhere).record
    assert abs(statistics.displacement(here, anywhere, n)) < MOST
    for lag in [1, 2, 3, 1000, 2**16, 2**20, 10**6, n // 3, 2**28]:
        found = statistics.pair_figures(here, plan.locate(anywhere + lag).record, n)
        assert outliers((f"{name}, lag {lag}", figure) for name, figure in found) == {}


def test_small_epochs_one_after_the_other() -> None:
    """2,000 walks through 100 records: every record comes at every place equally often, after every other one."""
    found = Plan.of_one(100, GLOBAL, 0).locate(range(200_000)).record.reshape(2000, 100)
    place, record = np.tile(np.arange(100), 2000), found.ravel()
    assert abs(statistics.contingency(place, record, 100, 100)) < MOST
    # Neighbors within a walk are never equal, so contingency does not apply; different ones pair equally often.
    pairs = np.bincount((found[:, :-1] * 100 + found[:, 1:]).ravel(), minlength=10_000).reshape(100, 100)
    apart = pairs[~np.eye(100, dtype=bool)]
    chi_square = float(((apart - apart.mean()) ** 2 / apart.mean()).sum())
    assert abs(statistics.normal(chi_square, len(apart) - 1)) < MOST
    assert abs(statistics.contingency(found[:-1].ravel(), found[1:].ravel(), 100, 100)) < MOST  # the next epoch


# ---- windows: ideal where they may be


@pytest.mark.parametrize("block", [64, 1024, 16384])
def test_records_within_windows(block: int) -> None:
    size = 16 * block
    order = Plan.of_one(8 * size, Shuffle.of("window", block, 16), 0).locate(range(4 * size)).record
    ranks = [np.argsort(np.argsort(window)) for window in order.reshape(4, size)]
    for number, window in enumerate(ranks):
        found = statistics.figures(window, 0, size)
        assert outliers((f"{name}, window {number}", figure) for name, figure in found) == {}
    for one, other in itertools.pairwise(ranks):
        assert outliers(statistics.pair_figures(one, other, size)) == {}


@pytest.mark.parametrize("block", [64, 1024])
def test_blocks_of_a_window(block: int) -> None:
    n_blocks = 2**14
    orders = []
    for seed, epoch in WALKS:
        plan = Plan.of_one(block * n_blocks, Shuffle.of("window", block, 1), seed)
        firsts = epoch * block * n_blocks + np.arange(n_blocks) * block
        orders.append(plan.locate(firsts).record // block)
        assert outliers(statistics.figures(orders[-1], 0, n_blocks)) == {}
    for one, other in itertools.pairwise(orders):
        assert outliers(statistics.pair_figures(one, other, n_blocks)) == {}


# ---- the figures tell a bad order from a good one


def simon(rounds: int) -> Callable[[Order, int, tuple[int, int]], Order]:
    """A Feistel network with rounds of the cipher SIMON, walked until it is inside: so another loader shuffles."""

    def permute(indices: Order, domain: int, key: tuple[int, int]) -> Order:
        half = max(8, -(-(domain - 1).bit_length() // 2))
        out = indices.copy()
        waiting = np.arange(len(out))
        while len(waiting):
            out[waiting] = passes(out[waiting], half, key)
            waiting = waiting[out[waiting] >= domain]
        return out

    def passes(words: Order, half: int, key: tuple[int, int]) -> Order:
        mask = 2**half - 1

        def turned(word: Order, by: int) -> Order:
            found: Order = (word << by | word >> (half - by)) & mask
            return found

        left, right = words >> half, words & mask
        for number in range(rounds):
            keyed = (key[number % 2] >> number) & mask
            left, right = right ^ turned(left, 1) & turned(left, 8) ^ turned(left, 2) ^ keyed, left
        found: Order = left << half | right
        return found

    return permute


@pytest.mark.parametrize("rounds", [3, 4])
def test_few_rounds_are_found(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "permute", simon(rounds))
    order = walk(10**6, 0, 0)
    assert len(np.unique(order)) == len(order)
    assert len(outliers(all_figures(10**6))) > 20
    assert any("lag" in name for name in outliers(statistics.figures(order, span(10**6)[0], 10**6)))


def test_statistics_detect_added_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(version: int, seed: int, epoch: int, *more: object) -> tuple[int, int]:
        return seed + epoch, 0

    monkeypatch.setattr(shuffling, "key_of", key)
    assert {name.partition(", ")[2] for name in outliers(all_figures(10**6))} == {"(0, 1) and (1, 0)"}


def test_statistics_detect_unshuffled_orders() -> None:
    n = 10**5
    for order in (np.arange(n), np.arange(n)[::-1], np.arange(n) * 61_803 % n):
        assert outliers(statistics.figures(order, 0, n)) != {}
    window = Plan.of_one(10**6, Shuffle.of("window"), 0).locate(range(SAMPLE)).record
    assert outliers(statistics.figures(window, 0, 10**6)) != {}
    assert outliers(statistics.figures(np.random.default_rng(1).permutation(n), 0, n)) == {}
