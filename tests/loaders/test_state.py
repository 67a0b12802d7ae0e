"""The state: small, unchanged by JSON, and an error if it was edited or belongs to another run."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats.errors import StateMismatchError
from dataformats.loaders.skips import Skips
from dataformats.loaders.state import State, validate
from dataformats.loaders.step_sizes import StepSize, StepSizes
from dataformats.testing.loop_over import loop_over

PLAIN = State(1234, 7, "0123456789abcdef0123456789abcdef", "global", 1)
RICH = State(
    position=987_654_321,
    seed=42,
    fingerprint="fedcba9876543210fedcba9876543210",
    shuffle=["window", 1024, 16, 2],
    plan=1,
    weights=((0, (3, 1)), (500_000, (1, 1))),
    skips=Skips.of([(100, 200), (5_000, 6_000)]),
    step_records=96,
)
STATES = pytest.mark.parametrize("state", [PLAIN, RICH], ids=["plain", "rich"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


def test_sizes_of_steps_begin_before_the_position() -> None:
    state = replace(PLAIN, step_sizes=StepSizes([StepSize(2000, 0, 4, 1, False)])).to_json()
    with pytest.raises(StateMismatchError, match="step_sizes of the state"):
        State.from_json(state)


@STATES
def test_round_trip_through_json(state: State) -> None:
    given_out = state.to_json()
    text = json.dumps(given_out)

    assert len(text) < 1024
    assert json.loads(text) == given_out
    assert State.from_json(json.loads(text)) == state
    assert State.from_json(pickle.loads(pickle.dumps(given_out))) == state


@STATES
def test_the_same_state_gives_the_same_dict(state: State) -> None:
    assert State.from_json(state.to_json()).to_json() == state.to_json()


def test_twenty_skips_fit_in_a_kilobyte() -> None:
    skips = Skips.of((10**12 + 10**6 * i, 10**12 + 10**6 * i + 5000) for i in range(20))

    assert len(json.dumps(replace(PLAIN, skips=skips).to_json())) < 1024


def test_numpy_integers_and_tuples_are_accepted() -> None:
    state = RICH.to_json()
    state["position"] = np.int64(state["position"])
    state["weights"] = tuple((np.int32(position), tuple(weights)) for position, weights in state["weights"])
    state["skips"] = tuple(map(tuple, state["skips"]))
    state["shuffle"] = tuple(state["shuffle"])

    assert State.from_json(state) == RICH
    assert replace(RICH, position=np.int64(987_654_321)).to_json() == RICH.to_json()  # type: ignore[arg-type]


def test_the_dict_shares_nothing_with_the_state() -> None:
    given_out = RICH.to_json()
    given_out["weights"][0][1][0] = 99
    given_out["skips"].clear()
    given_out["shuffle"].clear()

    assert State.from_json(RICH.to_json()) == RICH


# ---- damage


@st.composite
def places(draw: st.DrawFn, state: State) -> tuple[dict[str, Any], str]:
    """A state with one changed value, at any depth."""
    mutated = copy.deepcopy(state.to_json())
    name = draw(st.sampled_from(sorted(mutated)))
    holder: Any = mutated
    key: Any = name
    while isinstance(holder[key], list) and holder[key] and draw(st.booleans()):
        holder, key = holder[key], draw(st.integers(0, len(holder[key]) - 1))
    holder[key] = draw(JSON_VALUES | st.integers(0, 3).map(lambda change: _changed(holder[key], change)))
    return mutated, name


def _changed(value: Any, change: int) -> Any:
    return value + change if isinstance(value, int) else value[: max(0, len(value) - change)]


@given(st.one_of(places(PLAIN), places(RICH)))
def test_any_changed_value_raises_or_is_equal(mutated: tuple[dict[str, Any], str]) -> None:
    state, name = mutated
    try:
        found = State.from_json(state)
    except dataformats.StateMismatchError as error:
        refused = error
    else:
        assert found in (PLAIN, RICH)
        return
    assert refused.field in (f"{name} of the state", "state checksum")
    assert refused.remedy


@STATES
def test_a_missing_or_extra_key_raises(state: State) -> None:
    whole = state.to_json()
    for name in whole:
        with pytest.raises(dataformats.StateMismatchError):
            State.from_json({key: value for key, value in whole.items() if key != name})
    with pytest.raises(dataformats.StateMismatchError, match=r"set of state keys .*found 'extra'"):
        State.from_json({**whole, "extra": 1})


@STATES
def test_truncated_text_raises(state: State) -> None:
    text = json.dumps(state.to_json())
    for length in range(len(text)):
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Extra data|Invalid"):
            State.from_json(json.loads(text[:length]))


@loop_over("byte", range(0, len(json.dumps(RICH.to_json())), 3))
def test_any_changed_character_raises_or_is_equal(byte: int) -> None:
    text = json.dumps(RICH.to_json())
    for character in '0 9"':
        try:
            found = State.from_json(json.loads(text[:byte] + character + text[byte + 1 :]))
        except ValueError:  # json raises it, or it is a StateMismatchError
            continue
        assert found == RICH


@loop_over(
    "changes, message",
    [
        ({"position": -1}, r"position of the state differs: expected 'an integer in \[0, 2\*\*62\)', found -1"),
        ({"position": 1.0}, r"position of the state differs: expected 'an integer', found 1\.0"),
        ({"position": True}, "expected 'an integer', found True"),
        ({"position": 2**62}, "position of the state"),
        ({"seed": "7"}, "seed of the state differs: expected 'an integer', found '7'"),
        ({"version": 2}, "expected 1, found 2. The state was saved by a newer release"),
        ({"version": 0}, "version of the state differs"),
        ({"version": None}, "version of the state differs"),
        ({"skips": [[5, 3]]}, "skips of the state"),
        ({"skips": [[3, 5], [4, 9]]}, "skips of the state"),
        ({"skips": [[3, 5, 7]]}, "expected 'a list of pairs'"),
        ({"shuffle": ["window", 1024, 16]}, "shuffle of the state"),
        ({"weights": []}, "weights of the state"),
        ({"weights": [[5, [1]]]}, "the first at 0"),
        ({"weights": [[0, [1]], [5, [1, 1]]]}, "weights of the same components"),
        ({"weights": [[0, [1, -1]]]}, "weights of 0 or more"),
        ({"position": 1235}, "state checksum differs.*take the state from another checkpoint"),
    ],
)
def test_errors_name_the_problem(changes: dict[str, Any], message: str) -> None:
    for strict in (True, False):
        with pytest.raises(dataformats.StateMismatchError, match=message):
            validate(PLAIN.to_json() | changes, PLAIN, strict=strict)


@loop_over("state", [None, "{}", b"", [], 3])
def test_a_state_must_be_a_dict(state: object) -> None:
    with pytest.raises(dataformats.StateMismatchError, match=r"expected 'dict', found .*json\.loads"):
        validate(state, PLAIN, strict=False)


# ---- belongs elsewhere


def test_the_same_run_continues() -> None:
    assert validate(RICH.to_json(), replace(RICH, position=0, skips=Skips(), weights=((0, (1, 1)),))) == RICH


@loop_over(
    "mine, message",
    [
        (
            replace(PLAIN, fingerprint="other"),
            r"fingerprint differs: expected '0123.*', found 'other'. The state belongs to other data\. "
            "Open the same files .*strict=False to continue at the same position, 1234, of other data",
        ),
        (replace(PLAIN, seed=8), r"seed differs: expected 7, found 8\. .*Create the loader with seed=7"),
        (replace(PLAIN, shuffle="none"), "shuffle differs: expected 'global', found 'none'.*shuffle=True"),
        (replace(PLAIN, shuffle=["window", 64, 4, 1]), "shuffle differs: expected 'global'"),
        (replace(PLAIN, weights=((0, (1, 1)),)), "number of components differs: expected 1, found 2"),
    ],
)
def test_another_run_raises(mine: State, message: str) -> None:
    with pytest.raises(dataformats.StateMismatchError, match=message):
        validate(PLAIN.to_json(), mine)

    assert validate(PLAIN.to_json(), mine, strict=False) == replace(mine, position=1234)


def test_a_window_is_named_by_its_arguments() -> None:
    with pytest.raises(dataformats.StateMismatchError, match="block_records=1024, window_blocks=16, groups=2"):
        validate(RICH.to_json(), replace(RICH, shuffle="global"))


def test_an_unknown_plan_version() -> None:
    newer = replace(PLAIN, plan=3)
    with pytest.raises(dataformats.StateMismatchError, match=r"plan version differs: expected 3, found \[1\]"):
        validate(newer.to_json(), PLAIN)

    assert validate(newer.to_json(), PLAIN, strict=False) == PLAIN
    assert validate(PLAIN.to_json(), newer, plans=(1, 2, 3)) == PLAIN  # an older one is kept


def test_without_strict_position_weights_and_skips_are_taken() -> None:
    mine = State(0, 1, "mine", "none", 1, ((0, (5, 5)),))

    found = validate(RICH.to_json(), mine, strict=False)

    assert found == replace(mine, position=RICH.position, weights=RICH.weights, skips=RICH.skips)


def test_without_strict_weights_of_other_components_stay() -> None:
    mine = replace(RICH, weights=((0, (1, 2, 3)),))

    assert validate(RICH.to_json(), mine, strict=False).weights == mine.weights
