"""Parsers of the files that a training run saves: states and skip lists."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from dataformats import Loader, mix
from dataformats.loaders import epochs, growth, skip_list, skips, state
from tests.fuzz.parsers.engine import Files, Target
from tests.fuzz.parsers.mutation import change_bytes, change_json

OPTIONS: Sequence[dict[str, Any]] = ({"strict": False}, {"grown": "now"}, {"grown": "next_epoch"}, {})


def _made(n: int) -> tuple[Loader, Loader]:
    """Return a loader of `n` records, and one of a mixture that has these."""
    mixture = mix({"a": [*range(n)], "b": [*range(10)], "none": []}, {"a": 3, "b": 1, "none": 0})
    return Loader([*range(n)], 4, workers=0, shuffle="window", block_records=2), Loader(mixture, 4, workers=0)


@functools.cache
def _loaders() -> tuple[Loader, Loader]:
    return _made(30)


def _state(files: Files) -> None:
    try:
        given = json.loads(files["state.json"])
    except (ValueError, RecursionError):
        return
    for loader in _loaders():
        for options in OPTIONS:
            loader.load_state_dict(given, **options)
            with suppress(ValueError):  # documented: all positions are skipped
                next(iter(loader), None)  # an epoch may end at once


def _state_seeds() -> list[Files]:
    found: list[Files] = []
    for before, between, loader in zip(_made(15), _made(20), _loaders(), strict=True):
        loader.skip(8, 12)
        for _ in range(2):
            next(iter(loader))
            next(iter(before))
            found += [{"state.json": json.dumps(one.state_dict()).encode()} for one in (loader, before)]
        between.load_state_dict(before.state_dict(), grown="now")
        next(iter(between))
        found.append({"state.json": json.dumps(between.state_dict()).encode()})
    return found


def _sealed_state(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a changed state with the right check."""
    changed = change_json(random, data, others)
    try:
        given = json.loads(changed)
        return json.dumps({**given, "check": state._check(given)}).encode()
    except (ValueError, TypeError, RecursionError):
        return changed


def _skip_list(files: Files) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "skip.json"
        path.write_bytes(files["skip.json"])
        found = skip_list.SkipList.load(path)
        found.save(path)
        assert skip_list.SkipList.load(path).digest == found.digest
        found.check("a", [30, 10])


def _skip_list_seeds() -> list[Files]:
    lists: Sequence[object] = ([], [[7, 2]], [[], [3]])
    found = [{"version": 1, "fingerprint": "a", "records": one, "positions": [[3, 9]]} for one in lists]
    return [{"skip.json": json.dumps(content).encode()} for content in found]


TARGETS: Sequence[Target] = (
    Target(
        "state",
        _state,
        _state_seeds,
        (state, skips, epochs, growth),
        {".json": (_sealed_state, _sealed_state, change_bytes)},
    ),
    Target(
        "skip_list",
        _skip_list,
        _skip_list_seeds,
        (skip_list, skips),
        {".json": (change_json, change_json, change_bytes)},
    ),
)
