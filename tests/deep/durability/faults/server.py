"""Runs writers that meet faults, each in a fork of this process: no interpreter starts for a case.

The process has the shim preloaded. It reads lines `SCENARIO FAULT` from stdin and answers each with a line of JSON.
Without a fault, the answer has the operations of the scenario.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataformats import registry
from tests.deep.durability.faults.properties import Outcome, listing, violations
from tests.deep.durability.faults.scenarios import SCENARIOS, Scenario
from tests.deep.durability.faults.shim import Action, Fault, control, parse_log

_LIMIT_S = 60
_KILLED = Fault(1, Action.KILL_BEFORE)


class Runner:
    """Runs cases in a folder.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._home = folder.resolve()
        self._clean: dict[str, dict[str, Any]] = {}

    def run(self, name: str, fault: Fault | None) -> dict[str, Any]:
        """Return `{"operations": ...}` without a fault, else `{"violations": ...}`."""
        scenario = SCENARIOS[name]
        if name not in self._clean:
            self._clean[name] = self._case(self._dry_run, scenario)
        if fault is None:
            return self._clean[name]
        return self._case(self._faulty_run, scenario, fault, self._clean[name]["names"])

    def _case(self, run: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        folder = self._home / "case"
        (folder / "data").mkdir(parents=True)
        try:
            return run(folder, *arguments)
        finally:
            shutil.rmtree(folder)

    def _dry_run(self, folder: Path, scenario: Scenario) -> dict[str, Any]:
        outcome = _outcome(folder, scenario, None)
        assert outcome.end == "returned", f"{scenario.name} fails without a fault: {outcome.error}"
        operations = [(op.kind, op.path) for op in outcome.operations]
        names = listing(folder / "data")
        self._import_modules_of(lambda: violations(scenario, folder / "data", _KILLED, outcome, names), folder)
        return {"operations": operations, "names": names}

    def _import_modules_of(self, function: Callable[[], Any], folder: Path) -> None:
        """Import the modules that a function needs, so that no fork has to."""
        answer = folder / "modules"

        def report() -> None:
            function()
            _write_json(answer, [*sys.modules])

        _in_fork(report, answer)
        for name in json.loads(answer.read_text()):
            if name not in sys.modules:
                importlib.import_module(name)
        list(registry.backends)  # looks for installed ones
        gc.freeze()  # a collection in a fork looks at its own objects alone

    def _faulty_run(self, folder: Path, scenario: Scenario, fault: Fault, clean: list[str]) -> dict[str, Any]:
        try:
            outcome = _outcome(folder, scenario, fault)
        except TimeoutError:
            return {"violations": [f"the writer does not end in {_LIMIT_S} s"]}
        answer = folder / "answer"
        status = _in_fork(
            lambda: _write_json(answer, violations(scenario, folder / "data", fault, outcome, clean)), answer
        )
        if status == signal.SIGALRM:
            return {"violations": [f"reading or writing again does not end in {_LIMIT_S} s"]}
        found = json.loads(answer.read_text()) if status == 0 else [f"reading ends with signal {status}"]
        return {"violations": found, "end": outcome.end}


def _outcome(folder: Path, scenario: Scenario, fault: Fault | None) -> Outcome:
    """Return how a scenario ends in a new process.

    Raises:
        TimeoutError: It does not.
    """
    log, report = folder / "log", folder / "report"
    for path in (log, report):
        path.touch()
    status = _in_fork(lambda: _perform(folder, scenario, fault), folder / "crash")
    if status == signal.SIGALRM:
        raise TimeoutError
    facts: dict[str, Any] = {"error": "", "errnos": [], "open_files": [], "promised": 0}
    for line in report.read_text().splitlines():
        facts |= json.loads(line)
    end = "killed" if status == signal.SIGKILL else "raised" if facts["error"] else "returned"
    return Outcome(end=end, operations=parse_log(log.read_text()), **facts)


def _perform(folder: Path, scenario: Scenario, fault: Fault | None) -> None:
    """Write, in a process that may be killed for it; report to a file outside of the prefix of the faults."""
    data = folder / "data"
    scenario.prepare(data)
    log = os.open(folder / "log", os.O_WRONLY)
    report = os.open(folder / "report", os.O_WRONLY | os.O_APPEND)

    def tell(**facts: Any) -> None:
        os.write(report, (json.dumps(facts) + "\n").encode())

    tell(before=listing(data))
    control(data, fault, log)
    try:
        scenario.write(data, lambda n: tell(promised=n))
    except BaseException as error:
        control(None)
        tell(error=f"{type(error).__name__}: {error}", errnos=[*map(_number, _chain(error))])
    control(None)
    gc.collect()
    tell(open_files=_open_files(data))


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception and its chain of causes."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is not None and error not in found:
            found.append(error)
            waiting += [error.__cause__, error.__context__]
    return found


def _number(error: BaseException) -> int:
    return getattr(error, "errno", None) or 0


def _open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:
            continue  # the folder that is listed
        if path.startswith(f"{folder}/"):
            found.append(path)
    return found


def _in_fork(function: Callable[[], None], answer: Path) -> int:
    """Run a function in a fork; return the signal that ended it, or 0.

    Raises:
        RuntimeError: The function raised.
    """
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(_LIMIT_S)
            function()
            os._exit(0)
        except BaseException as error:
            answer.write_text(f"{type(error).__name__}: {error}")
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(answer.read_text())
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def main() -> None:
    """Answer the lines of stdin."""
    runner = Runner(Path(sys.argv[1]))
    for line in sys.stdin:
        name, _, fault = line.strip().partition(" ")
        answer = runner.run(name, Fault.parse(fault) if fault else None)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
