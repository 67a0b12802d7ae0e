"""The schedule of a mixture: the formula agrees with a computation turn by turn."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats.loaders.mixture_schedule import (
    History,
    Schedule,
    changed_history,
    checked_weights,
    epoch_length,
)
from dataformats.testing.loop_over import loop_over

WEIGHTS = [
    (1,),
    (5,),
    (1, 1),
    (3, 1),
    (1, 3),
    (1, 1, 1),
    (5, 0, 2),
    (0, 0, 1),
    (7, 11, 13, 1),
    (1,) * 9,
    (100, 1, 1, 1),
]
some_weights = st.lists(st.integers(0, 30), min_size=1, max_size=9).filter(any).map(tuple)


class Halves:
    """A group of components that takes turns one by one: its first half if it has had less than its share."""

    def __init__(self, weights: list[int], number: int = 0) -> None:
        self.number, self.weights, self.had, self.first_had = number, weights, 0, 0
        if len(weights) > 1:
            middle = len(weights) // 2
            self.first, self.second = Halves(weights[:middle], number), Halves(weights[middle:], number + middle)

    def turn(self) -> int:
        self.had += 1
        if len(self.weights) == 1:
            return self.number
        due = Fraction(self.had * sum(self.first.weights), sum(self.weights))
        if int(due + Fraction(1, 2)) > self.first_had:
            self.first_had += 1
            return self.first.turn()
        return self.second.turn()


def walk(weights: tuple[int, ...], n: int) -> list[int]:
    full = 1 << (len(weights) - 1).bit_length()
    halves = Halves([*weights] + [0] * (full - len(weights)))
    return [halves.turn() for _ in range(n)]


def only(*weights: int) -> Schedule:
    return Schedule(((0, weights),))


# ---- weights that stay


@loop_over("weights", WEIGHTS)
def test_turns_agree_with_one_by_one(weights: tuple[int, ...]) -> None:
    n = 3 * sum(weights) + 5
    expected = walk(weights, n)
    component, count = only(*weights).turns(np.arange(n))
    assert component.tolist() == expected
    seen = [0] * len(weights)
    for c, had in zip(expected, count.tolist(), strict=True):
        assert had == seen[c]
        seen[c] += 1
    assert only(*weights).counts(n) == seen


@given(weights=some_weights)
@settings(deadline=None)
def test_every_period_is_exact_and_all_others_are_close(weights: tuple[int, ...]) -> None:
    total = sum(weights)
    component, _ = only(*weights).turns(np.arange(4 * total))
    given_ = np.cumsum(np.arange(len(weights)) == component[:, None], axis=0)
    due = np.arange(1, 4 * total + 1)[:, None] * np.array(weights) / total
    assert given_[total - 1 :: total].tolist() == [[k * weight for weight in weights] for k in (1, 2, 3, 4)]
    assert np.abs(given_ - due).max() <= max(1, (len(weights) - 1).bit_length()) / 2 + 1e-9
    assert not set(component.tolist()) & {c for c, weight in enumerate(weights) if not weight}


def test_the_order_is_frozen() -> None:
    def turns(*weights: int) -> str:
        return "".join("abcde"[c] for c in only(*weights).turns(np.arange(sum(weights)))[0])

    assert turns(3, 1) == "aaba"
    assert turns(1, 1, 1, 1) == "acbd"
    assert turns(7, 2, 1) == "aabaacabaa"
    assert turns(1, 2, 3, 4, 5) == "debcedaecdecbed"


@loop_over("weights", [(2**31 - 2, 1), (1, 2**31 - 2), (2**30, 2**30 - 1), (3, 2, 1), (10**9, 7, 10**9)])
def test_far_positions_agree_with_python_integers(weights: tuple[int, ...]) -> None:
    schedule = only(*weights)
    positions = [0, 1, 2**31 - 2, 2**31, 2**40 + 5, 2**61 + 12345, 2**62 - 2, 2**62 - 1]
    component, count = schedule.turns(np.array(positions))
    for position, c, had in zip(positions, component.tolist(), count.tolist(), strict=True):
        before, after = schedule.counts(position), schedule.counts(position + 1)
        assert sum(before) == position
        assert before[c] == had
        assert [b - a for a, b in zip(before, after, strict=True)] == [int(k == c) for k in range(len(weights))]


def test_many_components() -> None:
    weights = tuple(range(1, 1001))
    component, count = only(*weights).turns(np.arange(sum(weights)))
    assert np.bincount(component).tolist() == list(weights)
    for c in (0, 499, 999):
        assert np.array_equal(count[component == c], np.arange(weights[c]))


# ---- weights that change


@given(data=st.data(), k=st.integers(1, 5))
@settings(deadline=None)
def test_changes_lose_and_repeat_no_record(data: st.DataObject, k: int) -> None:
    weights = st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any).map(tuple)
    history: History = ((0, data.draw(weights)),)
    for position in sorted(data.draw(st.sets(st.integers(1, 200), max_size=6))):
        history = changed_history(history, position, data.draw(weights))
    schedule = Schedule(history)
    component, count = schedule.turns(np.arange(300))
    for c in range(k):
        assert np.array_equal(count[component == c], np.arange((component == c).sum()))
    for position in (0, 1, 57, 200, 300):
        assert schedule.counts(position) == np.bincount(component[:position], minlength=k).tolist()
    rows = np.array(data.draw(st.lists(st.integers(0, 299), max_size=20)), np.int64)
    found = schedule.turns(rows)
    assert np.array_equal(found[0], component[rows])
    assert np.array_equal(found[1], count[rows])


def test_turns_before_a_change_stay() -> None:
    before, after = only(3, 1), Schedule(changed_history(((0, (3, 1)),), 10, (1, 5)))
    for one, other in zip(before.turns(np.arange(10)), after.turns(np.arange(10)), strict=True):
        assert one.tolist() == other.tolist()
    assert after.turns(np.arange(10, 16))[0].tolist() == walk((1, 5), 6)


def test_changes() -> None:
    history: History = ((0, (3, 1)), (10, (1, 1)))
    assert changed_history(history, 10, (1, 1)) == history
    assert changed_history(history, 500, (1, 1)) == history
    assert changed_history(history, 11, (2, 1)) == (*history, (11, (2, 1)))
    assert changed_history(history, 10, (2, 1)) == ((0, (3, 1)), (10, (2, 1)))
    assert changed_history(history, 10, (3, 1)) == ((0, (3, 1)),)
    assert changed_history(((0, (3, 1)),), 0, (1, 2)) == ((0, (1, 2)),)
    assert changed_history(history, 9, (1, 1)) == history
    assert changed_history(history, 9, (2, 1)) == ((0, (3, 1)), (9, (2, 1)))
    assert changed_history(history, 0, (2, 1)) == ((0, (2, 1)),)
    with pytest.raises(ValueError, match=r"^expected 2 weights, one for each component as before, found 3$"):
        changed_history(history, 20, (1, 1, 1))


# ---- how long an epoch is


def walked(lengths: tuple[int, ...], weights: tuple[int, ...], until: str) -> int:
    """Count turns until the first component, or all of them, have had as many as they have records."""
    left = {c: n for c, (n, weight) in enumerate(zip(lengths, weights, strict=True)) if weight}
    quorum = 1 if until == "first" else len(left)
    for n, c in enumerate(walk(weights, 5000), 1):
        left[c] -= 1
        if sum(count <= 0 for count in left.values()) == quorum:
            return n
    raise AssertionError("too short a walk")


@pytest.mark.parametrize("until", ["first", "all"])
def test_the_end_of_an_epoch(until: str) -> None:
    for lengths, weights in itertools.product([(5, 7, 9), (1, 1, 1), (20, 1, 3)], [(1, 1, 1), (5, 2, 1), (0, 1, 4)]):
        assert epoch_length(lengths, weights, until) == walked(lengths, weights, until)
    assert epoch_length((10, 0), (1, 0), until) == 10
    assert epoch_length((3, 4), (1, 1), 100) == 100


def test_invalid_ends() -> None:
    for until in ("last", None, True, 1.5):
        with pytest.raises(ValueError, match=r"^until: expected 'first', 'all' or a number of records, found "):
            epoch_length((5,), (1,), until)  # type: ignore[arg-type]
    for n in (0, -1, 2**62):
        with pytest.raises(
            ValueError, match=rf"^expected an epoch of 1 to 2\*\*62 - 1 records, found {n} with until={n}$"
        ):
            epoch_length((5,), (1,), n)
    with pytest.raises(ValueError, match=r"^expected an epoch of 1 to "):
        epoch_length((1, 2**61), (2**31 - 2, 1), "all")
    assert epoch_length((1, 2**61), (2**31 - 2, 1), "first") == 1


# ---- weights that are none


def test_weights() -> None:
    assert checked_weights([np.int64(3), 0], ("a", "b"), (5, 0)) == (3, 0)
    for wrong in (0.5, "1", None, True, 1.0):
        with pytest.raises(TypeError, match=r"^weights: expected whole numbers \(7 and 3, not 0.7 and 0.3\), found "):
            checked_weights([1, wrong], ("a", "b"), (5, 5))
    with pytest.raises(ValueError, match=r"^component 'b': expected a weight of 0 or more, found -2$"):
        checked_weights([1, -2], ("a", "b"), (5, 5))
    with pytest.raises(ValueError, match=r"^component 'b' has no records: expected a weight of 0, found 2$"):
        checked_weights([1, 2], ("a", "b"), (5, 0))
    with pytest.raises(ValueError, match=r"^expected a weight for each of 2 components, found 1$"):
        checked_weights([1], ("a", "b"), (5, 5))
    for weights in ([0, 0], [2**31, 0], [2**30, 2**30]):
        with pytest.raises(ValueError, match=r"^expected weights with a sum in \[1, 2\*\*31\), found "):
            checked_weights(weights, ("a", "b"), (5, 5))
