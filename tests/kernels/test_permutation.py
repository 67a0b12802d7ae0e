"""The keyed permutation: its formula, frozen vectors, and statistics against an ideal permutation."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataformats import kernels
from dataformats.kernels import reference
from dataformats.kernels.reference import permutation as twin
from dataformats.testing.loop_over import loop_over
from tests.deep.statistics import permutation_statistics as statistics

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

Key = tuple[int, int]

SUITES = [
    pytest.param(module, id=str(module.__name__.rsplit(".")[-1]))
    for module in (reference, _native)
    if module is not None
]
QUICK = _native or reference  # the statistics need many orders; that both agree is tested first
LARGE = [2**20 - 1, 2**20, 2**20 + 1, 10**6, 1_281_167, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 10**12, 2**62 + 1]
LARGEST = 2**63 - 1
MOST = 4.0  # deviations of a figure that are still chance

# Frozen: a change of these breaks the order of every resumed training run.
ORDERS: list[tuple[Key, int, list[int]]] = [
    ((0, 0), 2, [0, 1]),
    ((0, 0), 3, [2, 0, 1]),
    ((0, 0), 10, [7, 3, 8, 2, 4, 1, 0, 9, 6, 5]),
    ((1, 0), 2, [1, 0]),
    ((1, 0), 3, [1, 0, 2]),
    ((1, 0), 7, [3, 2, 1, 4, 6, 5, 0]),
    ((0, 1), 7, [4, 3, 2, 5, 1, 0, 6]),
    ((0, 1), 10, [4, 5, 2, 9, 3, 8, 0, 7, 1, 6]),
    ((2**64 - 1, 0x0123456789ABCDEF), 10, [4, 1, 3, 9, 0, 6, 5, 7, 8, 2]),
]
SAMPLES: list[tuple[Key, int, list[int]]] = [  # images of the indices 0, 1, domain // 2, domain - 2, domain - 1
    ((5, 7), 64, [1, 18, 28, 40, 35]),
    ((5, 7), 65, [47, 43, 62, 61, 35]),
    ((1, 2), 1000, [754, 870, 34, 680, 186]),
    ((1, 2), 1281167, [720891, 503624, 636494, 158165, 463811]),
    ((3, 4), 2**32 - 1, [2895097160, 3259005821, 636305837, 4133099017, 738577762]),
    ((3, 4), 2**32, [59194158, 2467240745, 3536896284, 2098018239, 4044518563]),
    ((3, 4), 2**32 + 1, [358974900, 2879591285, 2768832176, 3093886316, 3486293147]),
    ((2**63, 1), 10**12, [866981752962, 196634049421, 876451039012, 715098831455, 298975447929]),
    (
        (8, 9),
        2**63 - 1,
        [7271963088039406314, 7343951246155721483, 4042506443620299797, 613462312360741947, 299310796986234840],
    ),
]


def forth(suite: Any, indices: NDArray[np.int64], domain: int, key: Key) -> NDArray[np.int64]:
    out = np.empty(len(indices), np.int64)
    suite.permute(indices, domain, key, out)
    return out


def back(suite: Any, indices: NDArray[np.int64], domain: int, key: Key) -> NDArray[np.int64]:
    out = np.empty(len(indices), np.int64)
    suite.permute_back(indices, domain, key, out)
    return out


# ---- the law


@pytest.mark.parametrize("suite", SUITES)
def test_frozen_vectors(suite: Any) -> None:
    for key, domain, expected in ORDERS:
        assert forth(suite, np.arange(domain), domain, key).tolist() == expected, (key, domain)
    for key, domain, expected in SAMPLES:
        indices = np.array([0, 1, domain // 2, domain - 2, domain - 1])
        assert forth(suite, indices, domain, key).tolist() == expected, (key, domain)
        assert back(suite, np.array(expected), domain, key).tolist() == indices.tolist(), (key, domain)


@pytest.mark.parametrize("suite", SUITES)
def test_a_bijection_on_every_small_domain(suite: Any) -> None:
    for domain in [*range(1, 300), 511, 512, 513, 1000, 1023, 1024, 1025, 4097]:
        for key in ((0, 0), (domain, 2**64 - 1)):
            order = forth(suite, np.arange(domain), domain, key)
            assert np.array_equal(np.sort(order), np.arange(domain)), domain
            assert np.array_equal(back(suite, order, domain, key), np.arange(domain)), domain


@loop_over("domain", [2**20 - 1, 2**20, 2**20 + 1, 10**6, 1_281_167])
def test_a_bijection_on_large_domains(domain: int) -> None:
    order = kernels.permute(np.arange(domain), domain, (domain, 3))
    assert np.bincount(order, minlength=domain).tolist() == [1] * domain
    assert np.array_equal(kernels.permute_back(order, domain, (domain, 3)), np.arange(domain))


@pytest.mark.parametrize("suite", SUITES)
@given(
    domain=st.one_of(st.integers(1, 200), st.integers(1, LARGEST), st.sampled_from([*LARGE, LARGEST])),
    key=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    numbers=st.lists(st.integers(0, LARGEST), min_size=1, max_size=40),
)
@settings(deadline=None)
def test_back_is_the_inverse(suite: Any, domain: int, key: Key, numbers: list[int]) -> None:
    indices = np.array([number % domain for number in numbers], np.int64)
    there = forth(suite, indices, domain, key)
    assert ((there >= 0) & (there < domain)).all()
    assert back(suite, there, domain, key).tolist() == indices.tolist()
    assert forth(suite, back(suite, indices, domain, key), domain, key).tolist() == indices.tolist()
    assert there.tolist() == forth(reference, indices, domain, key).tolist()
    assert forth(suite, indices[-1:], domain, key)[0] == there[-1]  # independent of its neighbors


@pytest.mark.parametrize("suite", SUITES)
def test_out_may_be_the_indices(suite: Any) -> None:
    order = np.arange(5000)
    suite.permute(order, 5000, (1, 2), order)
    assert np.array_equal(np.sort(order), np.arange(5000))
    suite.permute_back(order, 5000, (1, 2), order)
    assert np.array_equal(order, np.arange(5000))


def test_all_of_the_key_and_the_domain_count() -> None:
    indices = np.arange(1000)
    keys = [(0, 0), (1, 1), (0, 2**64 - 1), (2**64 - 1, 0)]
    keys += [(1 << bit, 0) for bit in range(64)] + [(0, 1 << bit) for bit in range(64)]
    orders = {kernels.permute(indices, 1000, key).tobytes() for key in keys}
    assert len(orders) == len(keys)
    assert len({kernels.permute(indices[:9], domain, (0, 0)).tobytes() for domain in range(1025, 2049)}) == 1024


# ---- refused arguments


@pytest.mark.parametrize("suite", SUITES)
def test_refusals(suite: Any) -> None:
    three, out = np.array([0, 5, -1]), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=r"^index 1 \(5\) is outside \[0, 5\)$"):
        suite.permute(three, 5, (0, 0), out)
    with pytest.raises(ValueError, match=r"^index 2 \(-1\) is outside \[0, 6\)$"):
        suite.permute_back(three, 6, (0, 0), out)
    for domain in (0, -1, 2**63, -(2**70)):
        with pytest.raises(ValueError, match=rf"^domain must be in \[1, 2\*\*63\), found {domain}$"):
            suite.permute(three, domain, (0, 0), out)
    for word in (-1, 2**64):
        with pytest.raises(ValueError, match=rf"^a key is two integers in \[0, 2\*\*64\), found {word}$"):
            suite.permute(three, 6, (0, word), out)
    for key in (5, [1, 2], (1,), (1, 2, 3), "ab"):
        with pytest.raises(TypeError, match=r"^key must be a tuple of two integers, found "):
            suite.permute(three, 6, key, out)
    for wrong in (1.0, "1", None):
        with pytest.raises(TypeError):
            suite.permute(three, wrong, (0, 0), out)
        with pytest.raises(TypeError):
            suite.permute(three, 6, (0, wrong), out)
    for indices in (three[::2], three.astype(np.int32), three.reshape(1, 3)):
        with pytest.raises(TypeError, match=r"^indices must be a contiguous int64 array of one dimension$"):
            suite.permute(indices, 6, (0, 0), out)
    with pytest.raises(TypeError, match=r"^out must be a writable contiguous int64 array of one dimension$"):
        suite.permute(three, 6, (0, 0), out.astype(np.uint64))
    with pytest.raises(ValueError, match=r"^indices and out must be equally long, found 3 and 2$"):
        suite.permute(three, 6, (0, 0), out[:2])


def test_the_door_takes_lists_and_integer_arrays() -> None:
    expected = kernels.permute(np.arange(4), 10, (1, 2)).tolist()
    assert kernels.permute([0, 1, 2, 3], 10, (1, 2)).tolist() == expected
    assert kernels.permute(np.arange(8, dtype=np.uint8)[:4], 10, (1, 2)).tolist() == expected
    assert kernels.permute([], 10, (1, 2)).dtype == np.int64
    with pytest.raises(TypeError, match=r"^indices must be integers, found float64$"):
        kernels.permute([1.0], 10, (1, 2))
    with pytest.raises(ValueError, match=r"^indices must be below 2\*\*63, found 18446744073709551615$"):
        kernels.permute(np.array([2**64 - 1], np.uint64), 10, (1, 2))


# ---- as an ideal permutation is


@loop_over("n", [2, 3, 4, 5])
def test_small_domains_have_all_orders_equally_often(n: int) -> None:
    ranks = {order: rank for rank, order in enumerate(itertools.permutations(range(n)))}
    indices = np.arange(n)
    for keys in ([(k, 0) for k in range(6000)], [(7, k) for k in range(6000)]):
        counts = np.bincount([ranks[tuple(forth(QUICK, indices, n, key).tolist())] for key in keys])
        assert len(counts) == math.factorial(n)
        expected = len(keys) / len(counts)
        deviation = statistics.normal(float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1)
        assert abs(deviation) < MOST, (n, counts)


def places_and_pairs(n: int, n_keys: int) -> tuple[float, float]:
    """How even it is, over keys, where each record goes, and which two become neighbors."""
    places, pairs = np.zeros((n, n)), np.zeros((n, n))
    indices = np.arange(n)
    for k in range(n_keys):
        order = forth(QUICK, indices, n, (k, 1))
        places[indices, order] += 1
        pairs[order[:-1], order[1:]] += 1
    expected = n_keys / n
    place = float(((places - expected) ** 2 / expected).sum()) * (n - 1) / n  # every row and every column is full
    apart = ~np.eye(n, dtype=bool)
    pair = float(((pairs[apart] - expected) ** 2 / expected).sum())
    return statistics.normal(place, (n - 1) ** 2), statistics.normal(pair, n * (n - 1) - 1)


def test_domains_up_to_64_are_even_over_keys() -> None:
    found = {n: places_and_pairs(n, 400) for n in range(2, 65)}
    assert {n: figures[0] for n, figures in found.items() if abs(figures[0]) > MOST} == {}
    assert {n: figures[1] for n, figures in found.items() if n > 3 and abs(figures[1]) > MOST} == {}


def order_of(domain: int, k: int) -> tuple[NDArray[np.int64], int]:
    """All of a domain, or the middle of a large one and its first index."""
    if domain < 2**21:
        return forth(QUICK, np.arange(domain), domain, (k, 99)), 0
    first = domain // 3
    return forth(QUICK, first + np.arange(2**19), domain, (k, 99)), first


def all_figures(domain: int) -> dict[str, float]:
    found: dict[str, float] = {}
    before: NDArray[np.int64] | None = None
    for k in range(3):
        order, first = order_of(domain, k)
        found |= {f"{name}, key {k}": figure for name, figure in statistics.figures(order, first, domain)}
        if before is not None:
            found[f"keys {k - 1} and {k}"] = statistics.correlation(before, order, domain)
        before = order
    return found


@pytest.mark.parametrize(
    "domain",
    [2**12 - 1, 2**12, 2**12 + 1, 10**4, 2**16 - 1, 2**16, 2**16 + 1, 10**5, 2**20, 2**20 + 1, 10**6, 1_281_167, 10**9],
)
def test_figures(domain: int) -> None:
    found = all_figures(domain)
    assert len(found) >= 3 * 16
    assert {name: figure for name, figure in found.items() if abs(figure) > MOST} == {}


def test_the_figures_see_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def worst(rounds: int) -> float:
        monkeypatch.setattr(twin, "ROUNDS", rounds)
        order = forth(reference, np.arange(2**16), 2**16, (1, 99))
        return max(abs(float(figure)) for _, figure in statistics.figures(order, 0, 2**16))

    assert worst(1) > 20
    assert worst(8) < MOST


def test_the_figures_take_numpys_permutation() -> None:
    order = np.random.default_rng(1).permutation(10**5)
    assert all(abs(figure) < MOST for _, figure in statistics.figures(order, 0, 10**5))
    for wrong in (np.arange(10**5), np.arange(10**5)[::-1], np.arange(10**5) * 61_803 % 10**5):
        assert max(abs(figure) for _, figure in statistics.figures(wrong, 0, 10**5)) > MOST
