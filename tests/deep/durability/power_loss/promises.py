"""The promises that hold after a crash, checked in a folder as a crash left it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dataformats
from dataformats.testing.records import is_same_value
from tests.deep.durability.faults.scenarios import Contents
from tests.deep.durability.power_loss.jobs import Job, Notes, Place, Target
from tests.deep.durability.power_loss.recording import Progress

KINDS = ("lost", "torn", "refused", "left")
"""How a broken promise begins: finished or synced records are not there; data are read that are neither old nor new;
the same call raises; leftovers stay."""


def run_calls(job: Job, place: Place, first: int, note: Callable[..., None]) -> dict[int, int]:
    """Run the calls of a job from one on; return call to the number of records that its writer began with."""
    begins: dict[int, int] = {}
    for number in range(first, len(job.calls)):
        note(call=number)
        notes = Notes(functools.partial(begins.setdefault, number), lambda n: note(promised=n))
        job.calls[number](place, notes)
        note(returned=number)
    return begins


def broken_promises(
    job: Job, place: Place, progress: Progress, names: Sequence[str], *, is_killed: bool = False
) -> list[str]:
    """Return which promises are broken; an empty list is the aim.

    Args:
        job: The interrupted job.
        place: Its folders.
        progress: Its progress.
        names: The files and folders that it leaves if it is not interrupted; indexes may be missing.
        is_killed: True if the power did not fail: then data that grow have whole rows alone.
    """
    found = [problem for target in job.targets for problem in _after_crash(target, place, progress, is_killed)]
    is_complete = all(_state(target, place) == "new" for target in job.targets)
    begins, refusal = dict[int, int](), ""
    try:
        begins = run_calls(job, place, progress.call, lambda **facts: None)
    except Exception as error:
        refusal = f"{_text(error)}"
        if not (is_complete and _says_complete(error)):
            return [*found, f"refused: {refusal}", *_still_there(job, place)]
    found += _lost_of_writers(job, progress, begins, is_complete)
    found += [problem for target in job.targets for problem in _at_the_end(target, place)]
    there = all_names(place.data)
    if more := sorted({*there} - {*names}):
        found.append(f"left: {', '.join(more)}{f', and the call says: {refusal}' if refusal else ''}")
    if fewer := sorted(name for name in {*names} - {*there} if not name.endswith(".dataformats.idx")):
        found.append(f"torn: there is no {', '.join(fewer)} at the end")
    return found


def _says_complete(error: Exception) -> bool:
    """True for the one error that may be raised: the data are complete, and the call does not replace them."""
    says = re.search(r"' (exists\b(?! with|,)|is complete)", str(error))
    return isinstance(error, dataformats.TargetExistsError) and says is not None


# ---- right after the crash


def _after_crash(target: Target, place: Place, progress: Progress, is_killed: bool) -> list[str]:
    if target.growth == "rows":
        return _rows_after_crash(target, place, progress, is_killed)
    state = _state(target, place)
    if target.growth == "shards":
        return _shards_after_crash(target, place, progress, state)
    if progress.is_complete:
        allowed = ["new"]
    elif target.old is None:
        allowed = ["nothing", "new"]
    else:
        allowed = ["old", "new", *["nothing"] * target.may_be_missing]
    if state not in allowed:
        kind = "lost" if state == "nothing" or progress.is_complete else "torn"
        return [f"{kind}: after the crash there is {state}, expected {' or '.join(allowed)}"]
    return [] if state == "nothing" else _findings(target, place, "after the crash")


def _rows_after_crash(target: Target, place: Place, progress: Progress, is_killed: bool) -> list[str]:
    """Rows that were finished or synced can be read; later ones may be torn after a loss of power."""
    n = max([target.old.n if target.old else 0, *progress.promised.values()])
    n = target.new.n if progress.is_complete else n
    try:
        source = dataformats.open(place.data / target.name)
        n = max(n, len(source)) if is_killed else n
        rows = [source[i] for i in range(n)]
    except Exception as error:
        return [f"lost: after the crash, {n} rows are not readable: {_text(error)}"]
    return (
        [] if is_same_value(rows, target.new.records()[:n]) else [f"torn: after the crash, of {n} rows some are others"]
    )


def _shards_after_crash(target: Target, place: Place, progress: Progress, state: str) -> list[str]:
    """The records of writers that have ended can be read, and of others whole shards."""
    n_calls = len(target.finished) if progress.is_complete else progress.call
    finished = {i for call, numbers in target.finished.items() if call < n_calls for i in numbers}
    if state == "new" or (state == "nothing" and not finished):
        return []
    try:
        records = list(dataformats.open(place.data / target.name))
    except Exception as error:
        is_empty = isinstance(error, (FileNotFoundError, dataformats.FormatError)) and not finished
        return [] if is_empty else [f"torn: after the crash: {_text(error)}"]
    numbers = [
        next((i for i, record in enumerate(target.new.records()) if is_same_value(record, one)), -1) for one in records
    ]
    if -1 in numbers or numbers != sorted({*numbers}):
        return [f"torn: after the crash, there are the records {numbers}"]
    return [f"lost: after the crash, {sorted(finished - {*numbers})}"] if finished - {*numbers} else []


# ---- after the same calls


def _lost_of_writers(job: Job, progress: Progress, begins: dict[int, int], is_complete: bool) -> list[str]:
    found = []
    for call, n in begins.items():
        expected = 0 if not job.resumes or (job.replaces and is_complete) else progress.promised.get(call, 0)
        if job.extends:
            (target,) = job.targets
            expected = target.new.n if is_complete else max(expected, target.old.n if target.old else 0)
        if n < expected:
            found.append(f"lost: {expected} records were finished or synced, and the writer begins with {n}")
    return found


def _at_the_end(target: Target, place: Place) -> list[str]:
    state = _state(target, place)
    if state == "new":
        return _findings(target, place, "at the end")
    fewer = state == "nothing" or (state.startswith("records") and int(state.split()[1]) < target.new.n)
    return [f"{'lost' if fewer else 'torn'}: at the end there is {state}, expected new"]


def _still_there(job: Job, place: Place) -> list[str]:
    """The finished data are there after a call that raised."""
    states = [(target, _state(target, place)) for target in job.targets if target.old and target.growth == "none"]
    return [
        f"lost: after the call that raised, there is {state}"
        for target, state in states
        if state not in ("old", "new") and not target.may_be_missing
    ]


# ---- the state of the name


def _state(target: Target, place: Place) -> str:
    """Return the state of the name: "nothing", "old", "new", or the fault."""
    path = place.data / target.name
    if not path.exists():
        return "nothing"
    try:
        source = dataformats.open(path)
        found = list(source)
        rows = [source[i] for i in range(len(source))]
    except Exception as error:
        return f"an error: {_text(error)}"
    if not is_same_value(rows, found):
        return f"records {len(rows)} by index, and {len(found)} by iteration"
    for name, held in (("old", target.old), ("new", target.new)):
        if held is not None and held.is_in(source, found):
            return name
    n_new = _common(found, target.new)
    return f"records {len(found)}, {n_new} of them new, payload {source.payload!r}, spec {source.spec}"


def _common(found: Sequence[Any], held: Contents) -> int:
    return sum(any(is_same_value(one, record) for record in held.records()) for one in found)


def _findings(target: Target, place: Place, when: str) -> list[str]:
    report = dataformats.verify(place.data / target.name)
    return [] if report.ok else [f"torn: {when}, verify says: {'; '.join(map(str, report.findings))}"]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def all_names(folder: Path) -> list[str]:
    """Return all names in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
