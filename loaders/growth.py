"""States of a run whose data have grown since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from dataformats.errors import StateMismatchError
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.adapters import Readable, as_readable
from dataformats.loaders.epochs import Epochs, Grown
from dataformats.loaders.mixture import Mixture
from dataformats.loaders.mixture_schedule import Schedule, checked_weights, epoch_length
from dataformats.loaders.state import State, state_mismatch
from dataformats.reading.views import stored_length

Data = Readable | Mixture

_REMEDY = (
    "Pass grown='now' to load_state_dict, and they come in the rest of this epoch; or grown='next_epoch', and this "
    "epoch ends without them"
)
_OTHER = (
    "The state belongs to other data. grown= takes the records of the state, under the same indices, and others behind "
    "them. Appended files must come last in the order of their names. Records appended to a file are recognized in "
    "TFRecord, OFRecord, lines, and Granular of generation 3"
)


def begins_with(data: Data, fingerprint: str, sizes: Sequence[tuple[int, int]]) -> bool:
    """Return True if the first records of data have a fingerprint.

    Args:
        data: The data.
        fingerprint: The fingerprint that they had.
        sizes: `len` and `stored_length` that each component had.
    """
    sources = _sources(data)
    if len(sources) != len(sizes):
        return False
    if any(not 0 <= n <= min(n_stored, len(one)) for one, (n, n_stored) in zip(sources, sizes, strict=True)):
        return False
    if isinstance(data, Mixture):
        return data.fingerprint_of_first(sizes) == fingerprint
    return data.fingerprint_of_first(*sizes[0]) == fingerprint


def with_growth(state: State, data: Data, fingerprint: str, grown: Grown | None) -> State:
    """Return a state itself; if records were appended to its data since, the state of a run that goes on with them.

    Args:
        state: The state.
        data: The data as they are.
        fingerprint: Their fingerprint.
        grown: When appended records come.

    Raises:
        StateMismatchError: Records were appended, and `grown` is `None`; or the data do not begin with the records of
            the state.
        ValueError: `grown` is wrong.
    """
    if grown not in (None, *get_args(Grown)):
        raise ValueError(f"grown: expected 'now' or 'next_epoch', found {grown!r}")
    before, after = [one.length for one in state.of_components], [len(one) for one in _sources(data)]
    if state.fingerprint == fingerprint or len(before) != len(after):
        return state
    is_longer = all(old <= new for old, new in zip(before, after, strict=True))
    sizes = [*zip(before, state.n_stored or before, strict=True)]
    if not is_longer or not begins_with(data, state.fingerprint, sizes):
        if grown is None:
            return state
        what = f"fingerprint of the first {', '.join(map(str, before))} records"
        found = "other records" if is_longer else f"{', '.join(map(str, after))} records"
        raise StateMismatchError(what, expected=state.fingerprint, found=found, remedy=_OTHER)
    if grown is None and before != after:
        remedy = f"{_appended(data, before)} were appended to the data of the state. {_REMEDY}"
        raise StateMismatchError("number of records", expected=sum(before), found=sum(after), remedy=remedy)
    try:
        lengths = _grown_lengths(state, data, after, grown or "now")
    except ValueError as error:
        raise state_mismatch("lengths", str(error), state.lengths) from error
    return replace(state, fingerprint=fingerprint, lengths=lengths, n_stored=n_stored_of(data))


def n_stored_of(data: Data) -> tuple[int, ...]:
    """Return the `stored_length` of each component; empty if none is a view of more records than it has."""
    sources = _sources(data)
    found = tuple(stored_length(one) if isinstance(one, RecordSource) else len(one) for one in sources)
    return () if found == tuple(map(len, sources)) else found


def _grown_lengths(state: State, data: Data, after: Sequence[int], when: Grown) -> tuple[Epochs, ...]:
    """Return the epochs of the run, and of each component of a mixture, whose positions are its turns."""
    of_run, *of_components = state.lengths
    if not isinstance(data, Mixture) or state.weights is None:
        return (of_run.grow(state.position, after[0], when),)
    weights = [checked_weights(weights, data.names, after) for _, weights in state.weights]
    n_of_run = epoch_length(after, weights[0], data.until)
    turns = Schedule(state.weights).counts(state.position)
    grown = [one.grow(turn, n, when) for one, turn, n in zip(of_components, turns, after, strict=True)]
    return of_run.grow(state.position, n_of_run, when), *grown


def _appended(data: Data, before: Sequence[int]) -> str:
    """Return which records were appended, in words, with their files."""
    found = []
    for number, (source, first) in enumerate(zip(_sources(data), before, strict=True)):
        if len(source) == first:
            continue
        name = f" of {data.names[number]!r}" if isinstance(data, Mixture) else ""
        path, paths = source.origins([first])[0].path, source.paths if isinstance(source, RecordSource) else ()
        place, more = "", 0
        if path in paths:
            place, more = f" in {path!r}", len(paths) - 1 - paths.index(path)
        place += f" and {more} more files" if more else ""
        found.append(f"{len(source) - first:,} records{name} from record {first:,} on{place}")
    return "; ".join(found)


def _sources(data: Data) -> Sequence[Readable]:
    return [as_readable(one) for one in data.sources] if isinstance(data, Mixture) else [data]
