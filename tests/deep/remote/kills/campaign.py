"""Chooses faults and interleavings at random, runs them, and counts the outcomes."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.deep.remote.kills.cases import CaseRunner
from tests.deep.remote.kills.faults import FAILURES, KILLS, LATE, UNTIL_LIFTED, Action, Fault
from tests.deep.remote.kills.pairs import PAIRS, PairRunner
from tests.deep.remote.kills.scenarios import SCENARIOS
from tests.deep.remote.kills.stage import Stage, Violation

VIOLATIONS = ("lost", "torn", "blocked", "refused", "left", "wrong", "unable")
COLUMNS = ("cases", "killed", "raised", "returned", "nothing", "error", "old", "new", *VIOLATIONS)
KINDS = {"kills": KILLS, "failures": FAILURES, "late": LATE, "pairs": ()}
_ANYWHERE = (Action.KILL_BEFORE, Action.FAIL_500, Action.FAIL_503, Action.FAIL_403, Action.RESET)
_RETRIED = (Action.FAIL_500, Action.FAIL_503, Action.FAIL_403, Action.RESET)


@dataclass(frozen=True)
class Choice:
    """A case before its requests are counted.

    Attributes:
        kind: "kills", "failures", "late" or "pairs".
        name: The scenario, or the pair.
        action: The action of the fault, if it is no pair.
        where: The place among the requests, in [0, 1).
        where_second: The place where the second program of a pair waits; 1 or more if it does not wait.
        span: See `Fault`.
        elsewhere: See `Fault`.
    """

    kind: str
    name: str
    action: str
    where: float
    where_second: float
    span: int
    elsewhere: bool


def choose(kind: str, n: int, seed: int, only: str = "") -> Iterator[Choice]:
    """Yield `n` cases: each scenario about as often as another."""
    chosen = random.Random(f"{kind} {seed}")
    names = [name for name in (PAIRS if kind == "pairs" else SCENARIOS) if any(p in name for p in only.split(","))]
    turn: list[str] = []
    for at in range(n if names else 0):
        if at % len(names) == 0:
            turn = chosen.sample(names, len(names))
        action = chosen.choice(KINDS[kind]) if KINDS[kind] else None
        yield Choice(
            kind,
            turn[at % len(names)],
            "" if action is None else action.name,
            chosen.random(),
            chosen.random() * 2,
            _span(action, chosen),
            chosen.random() < 0.5,
        )


def _span(action: Action | None, chosen: random.Random) -> int:
    if action is Action.DENY:
        return UNTIL_LIFTED
    if action in LATE:
        return chosen.choice([1, 2, 3, 5, 8, UNTIL_LIFTED])
    return chosen.choice([1, UNTIL_LIFTED]) if action in _RETRIED else 1


@dataclass
class Campaign:
    """Runs cases on a stage, and counts.

    Attributes:
        stage: The stage.
        most_lines: Number of broken promises of one kind that are printed for each row.
        rows: Kind and name to counts, by the names of `COLUMNS`.
    """

    stage: Stage
    most_lines: int = 3
    rows: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._cases = CaseRunner(self.stage)
        self._pairs = PairRunner(self.stage)

    def run(self, choice: Choice) -> None:
        """Run a chosen case."""
        self._try(choice.kind, choice.name, lambda row: self._run_chosen(choice, row))

    def run_fault(self, name: str, fault: Fault) -> None:
        """Run one fault of a scenario."""
        self._try("kills", name, lambda row: self._meet("kills", name, fault, row))

    def play(self, name: str, first_at: int, second_at: int | None = None) -> None:
        """Play one interleaving of a pair."""
        self._try("pairs", name, lambda row: self._play(name, first_at, second_at, row))

    def kill_everywhere(self, name: str, step: int) -> None:
        """Kill a scenario before each `step`-th request, and after it if it changes something."""

        def kill(row: Counter[str]) -> None:
            for at, request in enumerate(self._cases.clean_run(SCENARIOS[name]).log, 1):
                for action in KILLS if request.changes else KILLS[:1]:
                    if at % step == 0:
                        self._meet("kills", name, Fault(at, action, elsewhere=at // step % 2 == 0), row)

        self._try("kills", name, kill)

    def hold_everywhere(self, name: str, step: int) -> None:
        """Hold the first program of a pair at each `step`-th request."""

        def hold(row: Counter[str]) -> None:
            for at in range(1, self._pairs.count(PAIRS[name]) + 1, step):
                self._play(name, at, None, row)

        self._try("pairs", name, hold)

    def _run_chosen(self, choice: Choice, row: Counter[str]) -> None:
        if choice.kind == "pairs":
            n = self._pairs.count(PAIRS[choice.name])
            second = int(choice.where_second * n) + 1 if choice.where_second < 1 else None
            self._play(choice.name, int(choice.where * n) + 1, second, row)
            return
        log, action = self._cases.clean_run(SCENARIOS[choice.name]).log, Action[choice.action]
        changes = [at for at, request in enumerate(log, 1) if request.changes]
        anywhere = action in _ANYWHERE and choice.where_second < 0.5
        places = [*range(1, len(log) + 1)] if anywhere or not changes else changes
        fault = Fault(places[int(choice.where * len(places))], action, choice.span, choice.elsewhere)
        self._meet(choice.kind, choice.name, fault, row)

    def _meet(self, kind: str, name: str, fault: Fault, row: Counter[str]) -> None:
        result = self._cases.run(SCENARIOS[name], fault)
        if result.end != "no fault":
            row.update(["cases", result.end, *set(result.states)])
            self._count(row, f"--only {name} --fault {fault}", result.violations)

    def _play(self, name: str, first_at: int, second_at: int | None, row: Counter[str]) -> None:
        violations = self._pairs.play(PAIRS[name], first_at, second_at)
        row["cases"] += 1
        self._count(row, f"--only {name} --hold {first_at}" + (f",{second_at}" if second_at else ""), violations)

    def _try(self, kind: str, name: str, function: Callable[[Counter[str]], None]) -> None:
        """Run cases; a scenario that fails without a fault is tried once, and counted for each case."""
        row = self.rows.setdefault((kind, name), Counter())
        if not row["unable"]:
            try:
                function(row)
                return
            except RuntimeError as error:
                print(f"{name} ({kind}) {error}"[:400], flush=True)
        row.update(["cases", "unable"])

    def _count(self, row: Counter[str], case: str, violations: Sequence[Violation]) -> None:
        for violation in {violation.kind: violation for violation in violations}.values():
            row[violation.kind] += 1
            if row[violation.kind] <= self.most_lines:
                print(f"{case}: {violation.kind}: {violation.text}", flush=True)


def print_table(rows: dict[tuple[str, str], Counter[str]], write: Callable[[str], object] = sys.stdout.write) -> int:
    """Print a table; return how many promises were broken."""
    for kind in KINDS:
        chosen = {name: row for (of, name), row in rows.items() if of == kind}
        if chosen:
            total = Counter[str]()
            for row in chosen.values():
                total.update(row)
            write(f"\n{kind:34} {' '.join(f'{column:>8}' for column in COLUMNS)}\n")
            for name, row in [*sorted(chosen.items()), ("total", total)]:
                write(f"{name:34} {' '.join(f'{row[column]:8}' for column in COLUMNS)}\n")
    return sum(row[kind] for row in rows.values() for kind in VIOLATIONS)
