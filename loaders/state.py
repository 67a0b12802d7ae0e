"""State: what a run needs to go on exactly, as a small JSON dict that is checked when it is loaded."""

from __future__ import annotations

import hashlib
import json
import operator
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dataformats.errors import StateMismatchError
from dataformats.loaders.skips import MAX_POSITION, Skips

__all__ = ["STATE_VERSION", "State", "validate"]

STATE_VERSION = 1
"""Of the dict: a release reads every version up to its own."""

History = tuple[tuple[int, tuple[int, ...]], ...]
ShuffleForm = str | list[str | int]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_TAKE_AGAIN = "the state is not as state_dict() gave it: take it from another checkpoint"


@dataclass(frozen=True, slots=True)
class State:
    """Where a run stands, and of which data, in which order. The same on every rank.

    Attributes:
        position: Records consumed over all ranks since training began.
        seed: The loader's seed.
        fingerprint: Of the data.
        shuffle: `Shuffle.to_json()`.
        plan: The version of the algorithm that the order comes from.
        weights: Of a mixture: (from which position on, the weights), the first from 0 on. `None` for one source.
        skips: Positions that are left out.
    """

    position: int
    seed: int
    fingerprint: str
    shuffle: ShuffleForm
    plan: int
    weights: History | None = None
    skips: Skips = field(default_factory=Skips)

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values; its `check` tells whether it was cut or edited.

        Under 1 KB with up to some 20 ranges of skips, or changes of weights; each more range adds at most 45 bytes:
        nothing is ever dropped, hundreds of them make it a larger dict.
        """
        state: dict[str, Any] = {
            "version": STATE_VERSION,
            "plan": self.plan,
            "shuffle": self.shuffle if isinstance(self.shuffle, str) else [*self.shuffle],
            "position": int(self.position),
            "seed": int(self.seed),
            "fingerprint": self.fingerprint,
        }
        if self.weights is not None:
            state["weights"] = [[position, list(weights)] for position, weights in self.weights]
        state["skips"] = [list(ends) for ends in self.skips.ranges]
        state["check"] = _check(state)
        return state

    @classmethod
    def from_json(cls, state: object) -> State:
        """Return the state of a dict that `to_json` gave, in this process or by way of JSON.

        Integers of any kind do (numpy's, say), and tuples for lists.

        Raises:
            StateMismatchError: It is of a newer release, or not as `to_json` gave it.
        """
        if not isinstance(state, Mapping):
            remedy = "pass what state_dict() returned; text has to go through json.loads first"
            raise StateMismatchError("type of the state", expected="dict", found=type(state).__name__, remedy=remedy)
        _check_version(state)
        _check_keys(state)
        parts = {name: _parsed(name, parse, state[name]) for name, parse in _PARTS.items() if name in state}
        found = cls(**parts)
        check = found.to_json()["check"]
        if state["check"] != check:
            raise StateMismatchError("check of the state", expected=check, found=state["check"], remedy=_TAKE_AGAIN)
        return found


def validate(state: object, mine: State, *, strict: bool = True, plans: Collection[int] = (1,)) -> State:
    """Return the state that a loader goes on with.

    Args:
        state: What `load_state_dict` was given.
        mine: The state of the loader: its data, its order.
        strict: Whether data, seed and order must be the same. Without, position, weights and skips are taken from
            `state`, everything else stays this loader's, as do weights if there is another number of components.
        plans: The versions of orders that this release knows.

    Returns:
        The state itself if `strict`: of an order that is in `plans`, though it may be older than `mine`.

    Raises:
        StateMismatchError: The state is malformed, whether or not `strict`; or it does not fit.
    """
    theirs = State.from_json(state)
    if strict:
        _check_fit(theirs, mine, plans)
        return theirs
    fits = _components(theirs) == _components(mine)
    weights = theirs.weights if fits else mine.weights
    return replace(mine, position=theirs.position, weights=weights, skips=theirs.skips)


# ---- does it fit?


def _check_fit(theirs: State, mine: State, plans: Collection[int]) -> None:
    for what, expected, found, remedy in (
        ("number of components", _components(theirs), _components(mine), _other_components()),
        ("fingerprint", theirs.fingerprint, mine.fingerprint, _other_data(theirs)),
        ("seed", theirs.seed, mine.seed, _other_order(f"seed={theirs.seed}")),
        ("shuffle", theirs.shuffle, mine.shuffle, _other_order(_shuffle_call(theirs.shuffle))),
    ):
        if expected != found:
            raise StateMismatchError(what, expected=expected, found=found, remedy=remedy)
    if theirs.plan not in plans:
        remedy = (
            "install the release that the state was taken with, or a newer one; or load it with strict=False to go "
        )
        remedy += "on at the same position of another order: some records of this epoch then come twice, others not"
        raise StateMismatchError("plan version", expected=theirs.plan, found=sorted(plans), remedy=remedy)


def _components(state: State) -> int:
    return 1 if state.weights is None else len(state.weights[0][1])


def _other_data(state: State) -> str:
    mixed = "" if state.weights is None else ", mixed under the same names in the same order, with the same until="
    return (
        f"the data are not those that the state was taken of: open the same files with the same filters{mixed}; "
        f"or load with strict=False to go on at the same position, {state.position}, of other data"
    )


def _other_components() -> str:
    return (
        "a run keeps the components that it began with: begin with all of them, those that come later with a weight "
        "of 0; or load with strict=False to go on at the same position of other data"
    )


def _other_order(argument: str) -> str:
    return (
        f"the records would come in another order: make the loader with {argument}, or load with strict=False to go "
        "on at the same position of another order: some records of this epoch then come twice, others not"
    )


def _shuffle_call(shuffle: ShuffleForm) -> str:
    if isinstance(shuffle, str):
        return f"shuffle={shuffle != 'none'}"
    return f"shuffle={shuffle[0]!r}, block_records={shuffle[1]}, window_blocks={shuffle[2]}"


# ---- is it whole?


def _check(state: Mapping[str, Any]) -> str:
    """Return 16 hex digits of everything else; not a seal against intent, but no accident gets past it."""
    text = _ENCODER.encode({name: value for name, value in state.items() if name != "check"})
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _check_version(state: Mapping[Any, Any]) -> None:
    if "version" not in state:
        found = ", ".join(sorted(map(str, state))[:5])
        remedy = "pass what state_dict() of a Loader returned"
        raise StateMismatchError("keys of the state", expected="version, ...", found=found, remedy=remedy)
    version = _parsed("version", _integer, state["version"])
    if version > STATE_VERSION:
        remedy = "the state was taken with a newer release of dataformats: install that one"
        raise StateMismatchError("version of the state", expected=STATE_VERSION, found=version, remedy=remedy)
    if version != STATE_VERSION:
        raise _malformed("version", f"{STATE_VERSION}", version)


def _check_keys(state: Mapping[Any, Any]) -> None:
    wanted = {"version", "check", *_PARTS}
    missing = sorted(wanted - {"weights"} - state.keys())
    extra = sorted(map(str, state.keys() - wanted))
    if missing or extra:
        expected = ", ".join(missing or sorted(wanted))
        found = ", ".join(extra) if extra else "nothing under " + ("that name" if len(missing) == 1 else "those names")
        raise StateMismatchError("keys of the state", expected=expected, found=found, remedy=_TAKE_AGAIN)


def _parsed(name: str, parse: Callable[[Any], Any], value: Any) -> Any:
    try:
        return parse(value)
    except (TypeError, ValueError) as error:
        raise _malformed(name, str(error), value) from None


def _malformed(name: str, expected: str, value: object) -> StateMismatchError:
    return StateMismatchError(f"{name} of the state", expected=expected, found=_shown(value), remedy=_TAKE_AGAIN)


def _shown(value: object) -> object:
    return value if isinstance(value, (int, float, str)) and len(str(value)) < 80 else reprlib.repr(value)


def _integer(value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError("an integer")


def _position(value: Any) -> int:
    if 0 <= (position := _integer(value)) < MAX_POSITION:
        return position
    raise ValueError("an integer in [0, 2**62)")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise TypeError("text")


def _list(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    raise TypeError("a list")


def _pairs(value: Any) -> list[list[Any]]:
    pairs = [_list(pair) for pair in _list(value)]
    if all(len(pair) == 2 for pair in pairs):
        return pairs
    raise ValueError("a list of pairs")


def _shuffle(value: Any) -> ShuffleForm:
    if isinstance(value, str):
        return str(value)
    parts = _list(value)
    if len(parts) != 3:
        raise ValueError("'global', 'none' or ['window', block_records, window_blocks]")
    return [_text(parts[0]), _integer(parts[1]), _integer(parts[2])]


def _weights(value: Any) -> History:
    history = tuple((_position(position), tuple(map(_integer, _list(weights)))) for position, weights in _pairs(value))
    starts = [position for position, _ in history]
    lengths = {len(weights) for _, weights in history}
    if starts[:1] != [0] or starts != sorted(set(starts)) or len(lengths) != 1 or 0 in lengths:
        raise ValueError("weights of the same components by ascending position, the first from 0 on")
    if any(min(weights) < 0 or max(weights) == 0 for _, weights in history):
        raise ValueError("weights from 0 on, and not all of them 0")
    return history


def _skips(value: Any) -> Skips:
    skips = Skips.of((_integer(first), _integer(last)) for first, last in _pairs(value))
    if len(skips.ranges) != len(value):
        raise ValueError("ascending ranges of positions that do not touch")
    return skips


_PARTS: dict[str, Callable[[Any], Any]] = {
    "position": _position,
    "seed": _integer,
    "fingerprint": _text,
    "shuffle": _shuffle,
    "plan": _integer,
    "weights": _weights,
    "skips": _skips,
}
