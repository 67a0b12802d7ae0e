"""The promises that hold after a fault, checked in the folder of a writer that met one."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dataformats
from dataformats.testing.records import is_same_value
from tests.deep.durability.faults.scenarios import Scenario
from tests.deep.durability.faults.shim import Action, Fault, Operation

_INDEX = ".dataformats.idx"
_DELETIONS = ("unlink", "rmdir")
# If one of these fails, the call may return: it copied another way, tidied up, found the folder, or had read all of
# the file. The data are whole.
_DISPENSABLE = (*_DELETIONS, "copy", "mkdir", "close-read")
# If only these operations remain, the data are complete, and leftovers are deleted.
_TIDYING = (*_DELETIONS, "open", "close", "close-read", "flock")


@dataclass(frozen=True)
class Outcome:
    """How a writer ended.

    Attributes:
        end: How the call ended.
        error: The exception that it raised.
        errnos: The numbers of the exception and of the exceptions in its chain.
        promised: Records that a sync had confirmed.
        open_files: Files of the folder that are still open.
        before: The files in the folder before.
        operations: The operations up to the end.
    """

    end: str  # "returned", "raised" or "killed"
    error: str
    errnos: Sequence[int]
    promised: int
    open_files: Sequence[str]
    before: Sequence[str]
    operations: Sequence[Operation]


def listing(folder: Path) -> list[str]:
    """Return all names in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def violations(scenario: Scenario, folder: Path, fault: Fault, outcome: Outcome, clean: Sequence[str]) -> list[str]:
    """Return which promises are broken; an empty list is the aim.

    Args:
        scenario: The writer.
        folder: Its folder.
        fault: The fault that it met.
        outcome: How it ended.
        clean: The names in the folder after a run without a fault.
    """
    state = _state(scenario, folder)
    found = [*_wrong_end(scenario, fault, outcome), *_wrong_state(scenario, fault, outcome, state)]
    found += _wrong_files(scenario, folder, fault, outcome, state, clean)
    try:
        found += _wrong_recovery(scenario, folder, outcome, state, clean)
    except Exception as error:
        found.append(f"cannot write again: {type(error).__name__}: {error}")
    return found


def _state(scenario: Scenario, folder: Path) -> str:
    """Return the state of the final name: "nothing", "old", "new", "between" (growing data), or the fault."""
    path = scenario.path(folder)
    if not path.exists():
        return "nothing"
    try:
        source: dataformats.RecordSource = dataformats.open(path)
        if scenario.grows:
            source = _without_rest(source)
        found = list(source)
        rows = [source[i] for i in range(len(source))]
    except Exception as error:
        return f"unreadable: {type(error).__name__}: {error}"
    if not is_same_value(rows, found):
        return f"of {len(rows)} records by index, and {len(found)} by iteration"
    for name, contents in (("old", scenario.old), ("new", scenario.new)):
        if contents.is_in(source, found):
            return name
    if scenario.grows and scenario.old.n < len(found) < scenario.new.n:
        return "between"
    return f"neither old nor new: {len(found)} records, payload {source.payload!r}, spec {source.spec}"


def _without_rest(source: dataformats.RecordSource) -> dataformats.RecordSource:
    """Return the sound rows of data that grow: if some fields are ahead, the last record raises."""
    last = len(source) - 1
    damaged = source.read(range(len(source)), on_corrupt="omit").failed
    return source[:last] if [*damaged] == [last] else source


def _wrong_end(scenario: Scenario, fault: Fault, outcome: Outcome) -> list[str]:
    found = []
    met = outcome.operations[fault.at - 1] if fault.at <= len(outcome.operations) else None
    if met is None:
        found.append("the fault did not happen")
    elif fault.kills != (outcome.end == "killed"):
        found.append(f"the process should have been killed: {fault.kills}, but the call {outcome.end}")
    elif outcome.end == "returned" and fault.fails and fault.error != errno.EINTR:
        if scenario.mode.by != "retry" and not _is_dispensable(met, outcome.operations[fault.at - 1 :]):
            found.append(f"no exception for the error of {met.kind} {met.path}")
    elif outcome.end == "raised" and not fault.fails:
        found.append(f"{outcome.error} without an error of the system")
    elif outcome.end == "raised" and fault.error not in outcome.errnos:
        found.append(f"{outcome.error} hides the error of the system")
    return found


def _is_dispensable(met: Operation, rest: Sequence[Operation]) -> bool:
    """True if the data may be whole although an operation failed; `rest` are it and the later ones."""
    is_tidying = all(later.kind in _TIDYING for later in rest)
    is_deleted = any(later.kind in _DELETIONS and later.path == met.path for later in rest)
    # Files that are written at once get another temporary name.
    endings = ("journal", "json", "mds", "mds.zstd", "bin.partial.idx")
    written_at_once = tuple(f".{ending}.partial" for ending in endings)
    has_other_name = met.kind == "create" and met.path.endswith(written_at_once)
    is_index = _INDEX in met.path  # readers build it
    return met.kind in _DISPENSABLE or is_tidying or is_deleted or has_other_name or is_index


def _wrong_state(scenario: Scenario, fault: Fault, outcome: Outcome, state: str) -> list[str]:
    has_old = scenario.mode.old in ("one", "shards", "front")
    allowed = ["old" if has_old else "nothing", "new", *(["between"] if scenario.grows else [])]
    if outcome.end == "returned":
        allowed = ["new"]
    if _is_between_two_files(scenario, fault):
        allowed.append("nothing")
    return [] if state in allowed else [f"under the final name is {state}, after the call {outcome.end}"]


def _is_between_two_files(scenario: Scenario, fault: Fault) -> bool:
    """True if old files may have been moved aside and not back: two files cannot be replaced at once."""
    return scenario.replaces_two_files and (fault.kills or fault.action is Action.FULL)


def _wrong_files(
    scenario: Scenario, folder: Path, fault: Fault, outcome: Outcome, state: str, clean: Sequence[str]
) -> list[str]:
    if outcome.end == "killed":
        return []
    if state == "nothing" and _is_between_two_files(scenario, fault):
        return []
    found = [f"a file stays open: {name}" for name in outcome.open_files]
    if outcome.end == "raised" and (scenario.resumes or scenario.mode.by == "convert"):
        return found  # an error of the system interrupts a conversion, which can be resumed
    allowed = set(clean if state == "new" else outcome.before)
    deleting = fault.fails and outcome.operations[fault.at - 1].kind in _TIDYING
    left = set(listing(folder)) - allowed
    if left and not deleting:
        found.append(f"left behind: {', '.join(sorted(left))}, after the call {outcome.end}")
    return found


def _wrong_recovery(scenario: Scenario, folder: Path, outcome: Outcome, state: str, clean: Sequence[str]) -> list[str]:
    """Write once more, as a user would, and return the broken promises."""
    found: list[str] = []
    is_complete = state == "new" and not scenario.overwrites and not scenario.grows
    try:
        lengths: list[int] = []
        replaces = {"overwrite": True} if is_complete and not scenario.resumes else {}
        scenario.write(folder, lengths.append, **replaces)
        if scenario.resumes and state != "new" and lengths[0] < outcome.promised:
            found.append(f"{outcome.promised} records were promised, and {lengths[0]} are there")
    except FileExistsError:
        if not (is_complete and scenario.resumes):
            raise
    if (now := _state(scenario, folder)) != "new":
        found.append(f"after writing again, under the final name is {now}")
    if (names := listing(folder)) != list(clean):
        more, less = sorted({*names} - {*clean}), sorted({*clean} - {*names})
        if more or not all(name.endswith(_INDEX) for name in less):
            found.append(f"after writing again there are {more} more and {less} fewer files")
    report = dataformats.verify(scenario.path(folder))
    return found + [f"after writing again: {finding}" for finding in report.findings]
