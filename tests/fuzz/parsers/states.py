"""Parsers of the files that a training run saves: states and quarantine lists."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from dataformats import Loader, mix
from dataformats.loaders import quarantine, skips, state
from dataformats.loaders.adapters import as_readable
from tests.fuzz.parsers.engine import Files, Target
from tests.fuzz.parsers.mutation import change_bytes, change_json

__all__ = ["TARGETS"]


@functools.cache
def _loaders() -> tuple[Loader, Loader]:
    mixture = mix({"a": [*range(30)], "b": [*range(10)], "none": []}, {"a": 3, "b": 1, "none": 0})
    return Loader([*range(20)], 4, workers=0, shuffle="window", block_records=2), Loader(mixture, 4, workers=0)


def _state(files: Files) -> None:
    try:
        given = json.loads(files["state.json"])
    except (ValueError, RecursionError):
        return
    for loader in _loaders():
        for strict in (False, True):
            loader.load_state_dict(given, strict=strict)
            with suppress(ValueError):  # documented: all positions are skipped
                next(iter(loader), None)  # an epoch may end at once


def _state_seeds() -> list[Files]:
    found: list[Files] = []
    for loader in _loaders():
        loader.skip(8, 12)
        for _ in range(2):
            next(iter(loader))
            found.append({"state.json": json.dumps(loader.state_dict()).encode()})
    return found


def _sealed_state(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a changed state with the right check."""
    changed = change_json(random, data, others)
    try:
        given = json.loads(changed)
        return json.dumps({**given, "check": state._check(given)}).encode()
    except (ValueError, TypeError, RecursionError):
        return changed


def _quarantine(files: Files) -> None:
    try:
        entries = json.loads(files["quarantine.json"])
    except (ValueError, RecursionError):
        return
    if isinstance(entries, list) and all(isinstance(entry, list) for entry in entries):
        quarantine.quarantined_indices(entries, [as_readable([1, 2, 3]), as_readable([4])])


def _quarantine_seeds() -> list[Files]:
    lists: Sequence[object] = ([], [["a", 2, "why"]], [["a", 2, "why", 0], ["", 0, "", 1]])
    return [{"quarantine.json": json.dumps(entries).encode()} for entries in lists]


TARGETS: Sequence[Target] = (
    Target("state", _state, _state_seeds, (state, skips), {".json": (_sealed_state, _sealed_state, change_bytes)}),
    Target(
        "quarantine",
        _quarantine,
        _quarantine_seeds,
        (quarantine,),
        {".json": (change_json, change_bytes)},
        (TypeError,),  # documented: not an entry
    ),
)
