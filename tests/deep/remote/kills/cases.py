"""Runs one call with one fault, then reads, then makes the call again, and returns the promises that were broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dataformats
from tests.deep.remote.kills.calls import SHARD_RECORDS
from tests.deep.remote.kills.faults import Action, Fault
from tests.deep.remote.kills.programs import Ending, Function, look
from tests.deep.remote.kills.proxy_client import LoggedRequest
from tests.deep.remote.kills.scenarios import Scenario
from tests.deep.remote.kills.stage import URL, Stage, Violation, labels, reader

_DENIES = (Action.FAIL_403, Action.DENY, Action.FAIL_500, Action.FAIL_503, Action.RESET)


@dataclass(frozen=True)
class CleanRun:
    """A run without a fault: the requests, the objects before, and the files of the same calls in a local folder."""

    log: Sequence[LoggedRequest]
    before: dict[str, bytes]
    expected: dict[str, str]


@dataclass(frozen=True)
class CaseResult:
    """The outcome of a case.

    Attributes:
        end: How the call ended that met the fault; "no fault" if it made too few requests.
        states: The states that a reader found then.
        violations: The broken promises.
    """

    end: str
    states: Sequence[str] = ()
    violations: Sequence[Violation] = ()


class CaseRunner:
    """Runs cases on a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._clean: dict[str, CleanRun] = {}

    # ---- without a fault

    def clean_run(self, scenario: Scenario) -> CleanRun:
        """Return the run of a scenario without a fault.

        Raises:
            RuntimeError: It fails, or leaves other objects than the same calls leave in a local folder.
        """
        if scenario.name not in self._clean:
            self._clean[scenario.name] = self._run_cleanly(scenario)
        return self._clean[scenario.name]

    def _run_cleanly(self, scenario: Scenario) -> CleanRun:
        stage, last = self._stage, scenario.again or scenario.call
        expected = stage.local_files([scenario.before, last])
        stage.reset({})
        before: dict[str, bytes] = {}
        if scenario.before is not None:
            stage.must_return(stage.run("w", stage.call(scenario.before)))
            before = stage.server.objects()
        stage.must_return(stage.run("w", stage.noting_modules(stage.call(scenario.call))))
        stage.import_modules()
        clean = CleanRun(stage.proxy.log("w"), before, expected)
        if scenario.again is not None:
            stage.reset(before)
            stage.must_return(stage.run("w", stage.call(scenario.again)))
        look_ = stage.noting_modules(reader(scenario.datasets, verify=True))
        found = stage.must_return(stage.run("r", look_)).facts["found"]
        stage.import_modules()
        final = "other" if scenario.adds and scenario.again is not None else "new"
        if set(labels(scenario.datasets, found)) != {final}:
            raise RuntimeError(f"a reader finds {found}")
        if violations := self._wrong_objects(scenario, clean, final):
            raise RuntimeError(violations[0].text)
        return clean

    # ---- with a fault

    def run(self, scenario: Scenario, fault: Fault) -> CaseResult:
        """Run a scenario that meets a fault."""
        clean, stage = self.clean_run(scenario), self._stage
        stage.reset(clean.before)
        first = stage.run("w", stage.call(scenario.call), fault=fault)
        if all(request.fate != fault.action.name for request in stage.proxy.log("w")):
            return CaseResult("no fault")
        broken = _wrong_end(fault, first)
        if first.end == "returned" and fault.is_late:
            stage.proxy.deliver()
        promised = self._promised(clean) if scenario.resumes and not scenario.grows else 0
        reading = stage.run("r", reader(scenario.datasets))
        if reading.end != "returned":
            return CaseResult(first.end, (), [*broken, Violation("wrong", f"reading {reading.end}: {reading.error}")])
        states = labels(scenario.datasets, reading.facts["found"])
        broken += _wrong_states(scenario, first, states, reading.facts["found"])
        if first.end == "returned" and set(states) == {"new"}:
            broken += [] if fault.action in _DENIES else self._wrong_objects(scenario, clean, "new")
        else:
            broken += self._run_again(scenario, fault, clean, states, promised)
        return CaseResult(first.end, states, broken)

    def _promised(self, clean: CleanRun) -> int:
        """Return how many records a resumed call must begin with: all records of arrived shards except the last one.

        A record is recognized by its text. The last shard counts only once its entry arrived, too. Shards that all have
        their final names count as published: the call publishes them, and then begins anew.
        """
        server = self._stage.server
        new = {key: server.read(key) for key in server.etags() if key not in clean.before}
        logs = [json.loads(text) for key, text in new.items() if key.endswith(".partial.dataformats.json")]
        if any(log["is_moved"] for log in logs):
            return 0
        arrived = b"".join(new.values())
        numbers = {int(found) for found in re.findall(rb"<(\d{6})>", arrived)}
        n = 0
        while numbers and {*range(min(numbers) + n, min(numbers) + n + SHARD_RECORDS)} <= numbers:
            n += SHARD_RECORDS
        return max(0, n - SHARD_RECORDS)

    def _run_again(
        self, scenario: Scenario, fault: Fault, clean: CleanRun, states: Sequence[str], promised: int
    ) -> list[Violation]:
        stage, machine = self._stage, "elsewhere" if fault.elsewhere else "machine"
        before = stage.temporary_files(machine)
        is_complete = "new" in states or (scenario.replaces_other and "old" in states)
        again = stage.run("w", self._call_again(scenario, may_replace=is_complete), machine=machine)
        if again.end != "returned":
            return [Violation("refused", f"the call again {again.end}: {again.error[:300]}")]
        broken = []
        if again.facts.get("begin", promised) < promised and not is_complete:
            what = f"{promised} records had arrived, and the call again begins with {again.facts['begin']}"
            broken.append(Violation("lost", what))
        late = stage.proxy.deliver()
        found = stage.run("r", reader(scenario.datasets, verify=True)).facts["found"] if late else again.facts["found"]
        expected = "new"
        if scenario.adds:
            expected = "twice" if "new" in states else "other" if scenario.again is not None else "new"
        now = labels(scenario.datasets, found)
        if set(now) != {expected}:
            kind = "torn" if "torn" in now else "blocked" if late else "lost"
            return [*broken, Violation(kind, f"after the call again, a reader finds {str(found)[:300]}")]
        if left := stage.temporary_files(machine) - before:
            broken.append(Violation("left", f"local files: {', '.join(sorted(left))}"))
        left_late = fault.is_late  # an object that arrives after the end stays
        return broken + [
            one for one in self._wrong_objects(scenario, clean, expected) if not (left_late and one.kind == "left")
        ]

    def _call_again(self, scenario: Scenario, *, may_replace: bool) -> Function:
        """Return the same call once more, and a look; complete data, which it need not write again, are replaced."""
        call = scenario.again or scenario.call

        def program(tell: Callable[..., None]) -> None:
            try:
                self._stage.call(call)(tell)
            except dataformats.TargetExistsError:
                if not may_replace or scenario.grows:
                    raise
                options: dict[str, Any] = {"resume": False} if scenario.resumes else {}
                self._stage.call(call, overwrite=True, **options)(tell)
            tell(found=look(URL, scenario.datasets, verify=True))

        return program

    def _wrong_objects(self, scenario: Scenario, clean: CleanRun, label: str) -> list[Violation]:
        """Return the faults of the bucket; shards that are added to a folder may have other names there."""
        if scenario.grows or label != "new":
            return self._stage.unlisted_objects(scenario.datasets)
        return self._stage.wrong_objects(clean.expected)


def _wrong_end(fault: Fault, first: Ending) -> list[Violation]:
    if first.end in ("hangs", "crashed") or (fault.kills and first.end != "killed"):
        return [Violation("wrong", f"the call {first.end}: {first.error}")]
    if "failed_close" in first.facts and not first.facts["names_folder"]:
        return [Violation("lost", f"close failed, and names no folder of data: {first.facts['failed_close']}")]
    if "failed_close" in first.facts and first.end != "returned":
        return [Violation("lost", f"the second close fails: {first.error}")]
    return []


def _wrong_states(scenario: Scenario, first: Ending, states: Sequence[str], found: Sequence[Any]) -> list[Violation]:
    complete = "old" if scenario.replaces_other else "new"
    broken = []
    for state, one in zip(states, found, strict=True):
        what = f"after the call {first.end}, a reader finds {str(one)[:300]}"
        if state in ("torn", "twice", "other"):
            broken.append(Violation("torn", what))
        elif first.end == "returned" and state != complete:
            broken.append(Violation("lost", what))
        elif scenario.grows and state not in ("old", "new"):
            broken.append(Violation("blocked", what))
    return broken
