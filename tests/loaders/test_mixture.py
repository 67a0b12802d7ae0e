"""Mixtures: their components, their lengths, and changes of their weights."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import Mixture, SpecError, StateMismatchError, UnknownNameError, mix
from dataformats.loaders.shuffle import Shuffle
from dataformats.loaders.state import State
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden" / "real"
SPEC = {"image": "uint8[8,8]", "label": "int64"}
GLOBAL = Shuffle.of(True)


@pytest.fixture(scope="module")
def digits() -> Any:
    return dataformats.open(str(GOLDEN / "digits-*.tfrecord"), spec=SPEC)


def mixed(digits: Any, a: int, b: int, until: str | int = "first") -> Mixture:
    return mix({"a": digits[:30], "b": digits[30:40]}, {"a": a, "b": b}, until)


# ---- properties


def test_attributes_and_repr(digits: Any) -> None:
    mixture = mixed(digits, 3, 1)
    assert (mixture.names, mixture.weights, mixture.lengths, mixture.until) == (("a", "b"), (3, 1), (30, 10), "first")
    assert [len(source) for source in mixture.sources] == [30, 10]
    assert len(mixture) == 39
    assert repr(mixture).splitlines()[1:] == ["  a  3 of 4, 30 records", "  b  1 of 4, 10 records"]
    assert mix({"a": digits[:30], "b": digits[30:40]}).weights == (1, 1)


@loop_over("until, n", [("first", 20), ("all", 59), (7, 7), (1000, 1000)])
def test_the_length_of_an_epoch(digits: Any, until: str | int, n: int) -> None:
    mixture = mixed(digits, 1, 1, until)
    assert len(mixture) == mixture.plan(GLOBAL, 0).n == n
    found = mixture.plan(GLOBAL, 0).locate(range(n))
    walked = [int((found.component == c).sum()) // length for c, length in enumerate(mixture.lengths)]
    if until == "first":
        assert max(walked) == 1
        assert len(set(zip(found.component.tolist(), found.record.tolist(), strict=True))) == n
    elif until == "all":
        assert min(walked) == 1


def test_the_fingerprint_is_of_names_sources_and_end(digits: Any) -> None:
    same = mixed(digits, 1, 1).fingerprint
    assert mixed(digits, 5, 0).fingerprint == same
    a, b = digits[:30], digits[30:40]
    others = [
        mixed(digits, 1, 1, "all"),
        mixed(digits, 1, 1, 40),
        mix({"a": a, "c": b}),
        mix({"b": b, "a": a}),
        mix({"a": b, "b": a}),
        mix({"a": a, "b": digits[30:41]}),
        mix({"a": a}),
        mix({"ab": a, "": b}),
    ]
    assert len({same, *(other.fingerprint for other in others)}) == 1 + len(others)


def test_a_mixture_pickles(digits: Any) -> None:
    mixture = pickle.loads(pickle.dumps(mixed(digits, 3, 1)))
    assert mixture.fingerprint == mixed(digits, 3, 1).fingerprint
    assert mixture.plan(GLOBAL, 0) == mixed(digits, 3, 1).plan(GLOBAL, 0)


def test_any_sequences_can_be_mixed() -> None:
    pair = {"a": [10, 20], "b": [1, 2, 3]}
    loader = dataformats.Loader(mix(pair, until="all"), 3, shuffle=False, workers=0)
    assert [batch["value"].tolist() for batch in loader] == [[10, 1, 20], [2, 10, 3]]
    arrays = {"a": np.zeros((5, 2), np.float32), "b": np.ones((4, 2), np.float32)}
    batch = next(iter(dataformats.Loader(mix(arrays), 4, workers=0)))
    assert (batch["value"].dtype, batch["value"].shape, batch["value"].sum()) == (np.float32, (4, 2), 4)


# ---- weights that change


def test_weights_change_from_a_position_on(digits: Any) -> None:
    before, after = mixed(digits, 3, 1), mixed(digits, 0, 1)
    old = before.plan(GLOBAL, 0)
    new = after.plan(GLOBAL, 0, old.history, 17)
    assert new.history == ((0, (3, 1)), (17, (0, 1)))
    assert new.n == old.n == 39 != len(after)
    for one, other in zip(old.locate(range(17)), new.locate(range(17)), strict=True):
        assert one.tolist() == other.tolist()
    assert set(new.locate(range(17, 60)).component.tolist()) == {1}
    assert before.plan(GLOBAL, 0, old.history, 17) == old
    assert before.plan(GLOBAL, 0, new.history, 50).history == (*new.history, (50, (3, 1)))


def test_weights_changed_at_position_0_replace_the_first(digits: Any) -> None:
    old = mixed(digits, 3, 1).plan(GLOBAL, 0)
    after = mixed(digits, 1, 3)
    assert after.plan(GLOBAL, 0, old.history, 0) == after.plan(GLOBAL, 0)


def test_nothing_is_lost_or_repeated_over_many_changes(digits: Any) -> None:
    weights = [(1, 1), (5, 0), (0, 1), (2, 3), (1, 7), (7, 1), (1, 0)]
    plan = mixed(digits, *weights[0]).plan(GLOBAL, 5)
    for number, (a, b) in enumerate(weights[1:], 1):
        plan = mixed(digits, a, b).plan(GLOBAL, 5, plan.history, 37 * number)
    found = plan.locate(range(500))
    for component, n in enumerate(plan.lengths):
        records = found.record[found.component == component]
        for walk in np.split(records, range(n, len(records), n)):
            assert len(set(walk.tolist())) == len(walk)


def test_plan_refuses_wrong_weight_histories(digits: Any) -> None:
    mixture = mixed(digits, 3, 1)
    with pytest.raises(ValueError, match=r"^expected 3 weights, one for each component as before, found 2$"):
        mixture.plan(GLOBAL, 0, ((0, (1, 1, 1)),), 5)
    assert mixture.plan(GLOBAL, 0, ((0, (1, 1)), (10, (2, 1))), 5).history == ((0, (1, 1)), (5, (3, 1)))
    with pytest.raises(ValueError, match=r"^component 'b': expected a weight of 0 or more, found -1$"):
        mixture.plan(GLOBAL, 0, ((0, (1, -1)),), 5)


# ---- refused arguments


@loop_over("weights", [(2**31, 1), (2**62, 2**62), (1, 1)])
def test_impossible_weights_in_a_state_are_refused(digits: Any, weights: tuple[int, int]) -> None:
    sources = {"a": digits[:30], "none": digits[:0]}
    loader = dataformats.Loader(mix(sources, {"a": 1, "none": 0}), 4)
    state = loader.state_dict()
    weighted = replace(State.from_json(state), position=4, weights=((0, weights),)).to_json()
    for strict in (True, False):
        with pytest.raises(StateMismatchError, match=r"^weights of the state differs"):
            loader.load_state_dict(weighted, strict=strict)
    assert loader.state_dict() == state


@loop_over(
    "weights, kind, message",
    [
        ({"a": 1}, ValueError, r"^component 'b' has no weight. Pass one, or 0 to leave it out for now$"),
        ({"a": 1, "b": 1, "aa": 1}, UnknownNameError, r"^unknown component 'aa' \(nearest: a\)$"),
        ({"a": 1, "b": -1}, ValueError, r"^component 'b': expected a weight of 0 or more, found -1$"),
        ({"a": 0, "b": 0}, ValueError, r"^expected weights with a sum in \[1, 2\*\*31\), found 0\. "),
        ({"a": 0.7, "b": 0.3}, TypeError, r"^weights: expected whole numbers \(7 and 3, not 0.7 and 0.3\), found 0.7$"),
    ],
)
def test_invalid_weights(digits: Any, weights: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        mix({"a": digits[:3], "b": digits[3:]}, weights)


def test_components_without_records(digits: Any) -> None:
    sources = {"a": digits[:3], "b": digits[:0]}
    with pytest.raises(ValueError, match=r"^component 'b' has no records: expected a weight of 0, found 1$"):
        mix(sources)
    assert len(mix(sources, {"a": 1, "b": 0}, "all")) == 3


@loop_over("sources", [[], None, "ab", {1: [1]}])
def test_sources_must_be_a_dict(sources: Any) -> None:
    with pytest.raises(TypeError, match=r"^mix: expected a dict of sources by name, found "):
        mix(sources)


def test_other_errors(digits: Any) -> None:
    with pytest.raises(ValueError, match=r"^mix: expected at least one source, found none$"):
        mix({})
    with pytest.raises(TypeError, match=r"^expected a source or a sequence of records, found "):
        mix({"a": 5})
    with pytest.raises(ValueError, match=r"^until: expected 'first', 'all' or a number of records, found 'last'$"):
        mixed(digits, 1, 1, "last")


@loop_over(
    "other, message",
    [
        (lambda d: d.select("label"), r"^component 'a' and component 'b' differ in image: uint8\[8,8\] and None$"),
        (lambda d: d.select("label", "image"), r"^component 'a' and component 'b' differ in the order of fields$"),
        (lambda d: d.map(len), r"^cannot combine component 'a' with component 'b': only one has a spec "),
        (lambda d: [1, 2], r"^cannot combine component 'a' with component 'b': only one has a spec "),
        (lambda d: np.zeros(3), r"^component 'a' and component 'b' differ in image: "),
    ],
)
def test_components_differ(digits: Any, other: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        mix({"a": digits, "b": other(digits)})


@pytest.mark.parametrize("pair", [(np.zeros(3, np.int32), np.zeros(3)), (np.zeros((3, 2)), np.zeros((3, 1)))])
def test_arrays_differ(pair: Any) -> None:
    sources: Mapping[str, Any] = dict(zip("ab", pair, strict=True))
    with pytest.raises(SpecError, match=r"^component 'a' and component 'b' differ in value: "):
        mix(sources)
