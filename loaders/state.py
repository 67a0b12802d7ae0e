"""State: all that a run needs to resume exactly, as a small dict of JSON values that is checked when loaded."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dataformats.errors import StateMismatchError
from dataformats.integer_arguments import as_int
from dataformats.loaders.epochs import Epochs
from dataformats.loaders.shuffle import WINDOW_SIZES, Shuffle
from dataformats.loaders.skips import MAX_POSITION, Skips
from dataformats.loaders.step_sizes import StepSizes

STATE_VERSION = 1
"""Version of the dict; a release reads all versions up to its own."""

History = tuple[tuple[int, tuple[int, ...]], ...]
ShuffleForm = str | list[str | int]

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_TAKE_AGAIN = "This is not an unchanged result of state_dict(): take the state from another checkpoint"


@dataclass(frozen=True, slots=True)
class State:
    """The position of a run, and its data and order. The same on every rank.

    Attributes:
        position: Records consumed over all ranks since training began.
        seed: The loader's seed.
        fingerprint: The fingerprint of the data.
        shuffle: `Shuffle.to_json()`.
        plan: The plan version, which fixes the algorithm of the order.
        weights: The weights of a mixture over time, (first position, weights), the first at 0; `None` for one source.
        skips: Positions that the run leaves out.
        step: Steps since training began.
        epoch: The epoch of the position.
        step_sizes: Records per step over time; empty if they are unknown, as in the state of a sampler.
        step_records: Records per step over all ranks, if a trainer counts the batches; otherwise `None`.
        skip_list: `SkipList.digest` of the records and positions that the run leaves out; `None` without a list.
        lengths: The epochs of the run, and of each component of a mixture, by their turns; empty if they are unknown.
        n_stored: The `stored_length` of each component; empty if they are their lengths.
    """

    position: int
    seed: int
    fingerprint: str
    shuffle: ShuffleForm
    plan: int
    weights: History | None = None
    skips: Skips = field(default_factory=Skips)
    step: int = 0
    epoch: int = 0
    step_sizes: StepSizes = field(default_factory=StepSizes)
    step_records: int | None = None
    skip_list: str | None = None
    lengths: tuple[Epochs, ...] = ()
    n_stored: tuple[int, ...] = ()

    @property
    def of_components(self) -> tuple[Epochs, ...]:
        """The epochs of each component."""
        return self.lengths if self.weights is None else self.lengths[1:]

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values; its `check` detects truncation and edits.

        `step`, `epoch`, `batch_size` and `world_size` are information for people and trainers.

        It is under 1 KB with up to about 15 skipped ranges, changes of weights or sizes of steps. Each further one adds
        at most 65 bytes, without limit: none is dropped.
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
        if self.step_sizes:
            last = self.step_sizes[-1]
            state |= {"step": int(self.step), "epoch": int(self.epoch)}
            state |= {"batch_size": last.batch_size, "world_size": last.world_size}
            state["step_sizes"] = [list(size) for size in self.step_sizes]
        if self.step_records is not None:
            state["step_records"] = int(self.step_records)
        if self.skip_list is not None:
            state["skip_list"] = self.skip_list
        if self.lengths:
            state["lengths"] = [[*map(list, one.lengths)] for one in self.lengths]
        if self.n_stored:
            state["n_stored"] = [*self.n_stored]
        state["skips"] = [list(ends) for ends in self.skips.ranges]
        state["check"] = _check(state)
        return state

    @classmethod
    def from_json(cls, state: object) -> State:
        """Return the state of a dict that `to_json` returned, perhaps saved as JSON since.

        Accepts integers of any type (NumPy's, for example), and tuples in place of lists.

        Raises:
            StateMismatchError: It is of a newer release, or not an unchanged result of `to_json`.
        """
        if not isinstance(state, Mapping):
            remedy = "Pass the result of state_dict(); convert text with json.loads first"
            raise StateMismatchError("type of the state", expected="dict", found=type(state).__name__, remedy=remedy)
        _check_version(state)
        _check_keys(state)
        parts = {name: _parsed(name, parse, state[name]) for name, parse in _PARTS.items() if name in state}
        found = cls(**parts)
        check = found.to_json()["check"]
        if state["check"] != check:
            raise StateMismatchError("state checksum", expected=check, found=state["check"], remedy=_TAKE_AGAIN)
        if found.step_sizes and found.step_sizes[0].position > found.position:
            raise state_mismatch(
                "step_sizes", f"sizes from {found.position} on or before", found.step_sizes[0].position
            )
        n = _components(found)
        if found.lengths and len(found.lengths) != (1 if found.weights is None else 1 + n):
            raise state_mismatch("lengths", f"lengths of {n} components", len(found.lengths))
        if found.n_stored and len(found.n_stored) != n:
            raise state_mismatch("n_stored", f"a number for each of {n} components", len(found.n_stored))
        return found


def validate(
    state: object,
    mine: State,
    *,
    strict: bool = True,
    any_order: bool = False,
    any_sizes: Collection[str] = (),
    any_skip_list: bool = False,
    plans: Collection[int] = (1,),
    grow: Callable[[State], State] | None = None,
) -> State:
    """Return the state with which a loader continues.

    Args:
        state: The argument of `load_state_dict`.
        mine: The current state of the loader: its data and order.
        strict: True: data, seed and order must be the same. False: only position, weights and skips come from `state`;
            weights stay the loader's own if the number of components differs.
        any_order: True: the order may differ, and the loader continues with the order of the result.
        any_sizes: The numbers of a window order, of `WINDOW_SIZES`, that may differ.
        any_skip_list: True: the skip list may differ, and the loader continues with its own.
        plans: The plan versions that this release knows.
        grow: Returns the state with records that were appended since: see `with_growth`. It counts only if `strict`.

    Returns:
        The state itself if `strict`; its plan version is in `plans` and may be older than the version of `mine`.

    Raises:
        StateMismatchError: The state is malformed, or it is `strict` and does not fit.
    """
    theirs = State.from_json(state)
    if strict:
        theirs = theirs if grow is None else grow(theirs)
        shuffle = theirs.shuffle if any_order else _with_sizes(mine.shuffle, theirs.shuffle, any_sizes)
        skip_list = theirs.skip_list if any_skip_list else mine.skip_list
        _check_fit(theirs, replace(mine, shuffle=shuffle, skip_list=skip_list), plans)
        return theirs
    fits = _components(theirs) == _components(mine)
    weights = theirs.weights if fits else mine.weights
    is_same = fits and theirs.fingerprint == mine.fingerprint
    if is_same:
        _check_lengths(theirs, mine)
    return replace(
        mine,
        position=theirs.position,
        weights=weights,
        skips=theirs.skips,
        step=theirs.step,
        step_sizes=StepSizes(),
        lengths=theirs.lengths if is_same else (),
    )


# ---- data and order


def _check_fit(theirs: State, mine: State, plans: Collection[int]) -> None:
    for what, expected, found, remedy in (
        ("number of components", _components(theirs), _components(mine), _OTHER_COMPONENTS),
        ("fingerprint", theirs.fingerprint, mine.fingerprint, _other_data(theirs)),
        ("seed", theirs.seed, mine.seed, _other_order(f"seed={theirs.seed}")),
        ("shuffle", theirs.shuffle, mine.shuffle, _other_order(_shuffle_call(theirs.shuffle))),
        ("skip list", theirs.skip_list or "none", mine.skip_list or "none", _OTHER_SKIP_LIST),
    ):
        if expected != found:
            raise StateMismatchError(what, expected=expected, found=found, remedy=remedy)
    _check_lengths(theirs, mine)
    if theirs.plan not in plans:
        remedy = f"Install the release that saved the state, or a newer one; or {_STRICT_FALSE}"
        raise StateMismatchError("plan version", expected=theirs.plan, found=sorted(plans), remedy=remedy)


def _check_lengths(theirs: State, mine: State) -> None:
    expected, found = ([one.length for one in state.of_components] for state in (mine, theirs))
    if expected and found and expected != found:
        raise state_mismatch("lengths", f"{expected} records at last", found)


def _with_sizes(mine: ShuffleForm, theirs: ShuffleForm, names: Collection[str]) -> ShuffleForm:
    """Return this order with these numbers of the other one, if both have windows."""
    if isinstance(mine, str) or isinstance(theirs, str):
        return mine
    pairs = zip(WINDOW_SIZES, mine[1:], theirs[1:], strict=True)
    return [mine[0], *(their if name in names else my for name, my, their in pairs)]


def _components(state: State) -> int:
    return 1 if state.weights is None else len(state.weights[0][1])


def _other_data(state: State) -> str:
    mixed = "" if state.weights is None else ", mixed under the same names in the same order, with the same until="
    return (
        f"The state belongs to other data. Open the same files with the same filters{mixed}; or load with strict=False "
        f"to continue at the same position, {state.position}, of other data"
    )


def _other_order(argument: str) -> str:
    return f"Records would come in another order. Create the loader with {argument}, or {_STRICT_FALSE}"


_OTHER_COMPONENTS = (
    "A run keeps the components it began with. Begin with all of them, with a weight of 0 for those needed later; or "
    "load with strict=False to continue at the same position of other data"
)
_OTHER_SKIP_LIST = (
    "Pass the list of the run as skip=; or pass new_skip=True, and the run continues with the list of this loader from "
    "the position of the state on"
)
_STRICT_FALSE = (
    "load with strict=False to continue at the same position of another order: in this epoch some records then come "
    "twice, others not at all"
)


def _shuffle_call(shuffle: ShuffleForm) -> str:
    if isinstance(shuffle, str):
        return f"shuffle={shuffle != 'none'}"
    sizes = ", ".join(f"{name}={size}" for name, size in zip(WINDOW_SIZES, shuffle[1:], strict=True))
    return f"shuffle={shuffle[0]!r}, {sizes}"


# ---- content


def _check(state: Mapping[str, Any]) -> str:
    """Return a digest of all other keys, 16 hex digits; it detects accidents, not intent."""
    text = _ENCODER.encode({name: value for name, value in state.items() if name != "check"})
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _check_version(state: Mapping[Any, Any]) -> None:
    if "version" not in state:
        found = ", ".join(sorted(map(str, state))[:5])
        remedy = "Pass the result of state_dict() of a Loader"
        raise StateMismatchError("set of state keys", expected="version, ...", found=found, remedy=remedy)
    version = _parsed("version", as_int, state["version"])
    if version > STATE_VERSION:
        remedy = "The state was saved by a newer release of dataformats. Install that one"
        raise StateMismatchError("version of the state", expected=STATE_VERSION, found=version, remedy=remedy)
    if version != STATE_VERSION:
        raise state_mismatch("version", f"{STATE_VERSION}", version)


def _check_keys(state: Mapping[Any, Any]) -> None:
    wanted = {"version", "check", *_PARTS, *_OF_STEP_SIZES}
    optional = {"weights", "step_records", "skip_list", "lengths", "n_stored", *_OF_STEP_SIZES}
    missing = sorted(wanted - optional - state.keys())
    extra = sorted(map(str, state.keys() - wanted))
    if missing or extra:
        expected = ", ".join(missing or sorted(wanted))
        found = ", ".join(extra) if extra else "no such key" + ("s" if len(missing) > 1 else "")
        raise StateMismatchError("set of state keys", expected=expected, found=found, remedy=_TAKE_AGAIN)


def _parsed(name: str, parse: Callable[[Any], Any], value: Any) -> Any:
    try:
        return parse(value)
    except (TypeError, ValueError) as error:
        raise state_mismatch(name, str(error), value) from None


def state_mismatch(name: str, expected: str, value: object) -> StateMismatchError:
    """Return the error for a part of a state that no `state_dict` returns."""
    return StateMismatchError(f"{name} of the state", expected=expected, found=_shown(value), remedy=_TAKE_AGAIN)


def _shown(value: object) -> object:
    return value if isinstance(value, (int, float, str)) and len(str(value)) < 80 else reprlib.repr(value)


def _position(value: Any) -> int:
    if 0 <= (position := as_int(value)) < MAX_POSITION:
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
    if not isinstance(value, str):
        kind, *sizes = _list(value) or [""]
        value = [_text(kind), *map(as_int, sizes)]
    try:
        return Shuffle.from_json(value).to_json()
    except ValueError:
        raise ValueError(f"'global', 'none' or ['window', {', '.join(WINDOW_SIZES)}]") from None


def _weights(value: Any) -> History:
    history = tuple((_position(position), tuple(map(as_int, _list(weights)))) for position, weights in _pairs(value))
    starts = [position for position, _ in history]
    lengths = {len(weights) for _, weights in history}
    if starts[:1] != [0] or starts != sorted(set(starts)) or len(lengths) != 1 or 0 in lengths:
        raise ValueError("weights of the same components by ascending position, the first at 0")
    if any(min(weights) < 0 or max(weights) == 0 for _, weights in history):
        raise ValueError("weights of 0 or more, not all of them 0")
    return history


def _skips(value: Any) -> Skips:
    skips = Skips.of((as_int(first), as_int(last)) for first, last in _pairs(value))
    if len(skips.ranges) != len(value):
        raise ValueError("ascending ranges of positions that do not touch")
    return skips


_PARTS: dict[str, Callable[[Any], Any]] = {
    "position": _position,
    "seed": as_int,
    "fingerprint": _text,
    "shuffle": _shuffle,
    "plan": as_int,
    "weights": _weights,
    "skips": _skips,
    "step": as_int,
    "epoch": as_int,
    "step_sizes": lambda value: StepSizes.from_json(map(_list, _list(value))),
    "step_records": as_int,
    "skip_list": _text,
    "lengths": lambda value: tuple(Epochs.from_json(map(_list, _list(one))) for one in _list(value)),
    "n_stored": lambda value: tuple(map(_position, _list(value))),
}
_OF_STEP_SIZES = {"step_sizes", "step", "epoch", "batch_size", "world_size"}
