"""What was measured, as a table: for the terminal, and in Markdown for a page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.harness import LEAST_SCALING, Case, Result, Target

HEADS = ("work", "side", "median", "against", "its median", "ratio", "target", "", "two threads")
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


@dataclass(frozen=True)
class Row:
    """One comparison, as text."""

    work: str
    side: str
    ours: str
    against: str
    theirs: str
    ratio: str
    target: str
    verdict: str
    scaling: str

    def cells(self) -> tuple[str, ...]:
        """Return the texts in the order of `HEADS`."""
        sides = (self.side, self.ours, self.against, self.theirs)
        return (self.work, *sides, self.ratio, self.target, self.verdict, self.scaling)


def rows_of(case: Case, result: Result) -> list[Row]:
    """Return the rows of a case."""
    return [_row(case, result, target) for target in case.rows]


def failed_row(case: Case, reason: str) -> Row:
    """Return the row of a case that gave no result."""
    return Row(f"{case.name}: failed: {reason}", "", "", "", "", "", "", "", "")


def terminal(rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    """Return lines for a terminal; the work stands above its rows, which keeps them short."""
    widths = [max(len(row.cells()[column]) for row in rows) for column in range(len(HEADS))]
    lines, work = [], None
    for row in rows:
        if row.work != work:
            lines += ["", row.work]
            work = row.work
        cells = [cell.ljust(width) for cell, width in zip(row.cells(), widths, strict=True)]
        lines.append(("  " + "  ".join(cells[1:])).rstrip())
    return "\n".join([*lines, "", *(f"{name}: {value}" for name, value in facts.items())])


def markdown(rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    """Return a Markdown table, and below it what it was measured on."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    work = None
    for row in rows:
        first = "" if row.work == work else row.work
        lines.append("| " + " | ".join((first, *row.cells()[1:])) + " |")
        work = row.work
    return "\n".join([*lines, "", *(f"- {name}: {value}" for name, value in facts.items())])


def put_into(page: Path, table: str) -> None:
    """Write the table between the marks of a page, or as a new page."""
    text = page.read_text("utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page}: expected the lines {BEGIN} and {END}, between which the table goes")
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


def _row(case: Case, result: Result, target: Target) -> Row:
    ratio = result.ratio(target)
    scaling = statistics.median(result.scaling)
    return Row(
        result.title,
        target.side,
        _seconds(result.median_s(target.side)),
        target.against,
        _seconds(result.median_s(target.against)),
        "" if ratio is None else f"{ratio:.2f}×",
        "" if target.at_least is None else f"{target.at_least:g}×",
        _verdict(case, result, target, scaling),
        "" if case.one_thread else f"{scaling:.2f}×",
    )


def _verdict(case: Case, result: Result, target: Target, scaling: float) -> str:
    ratio = result.ratio(target)
    if ratio is None:
        reasons = [result.missing[side] for side in (target.side, target.against) if side in result.missing]
        return f"not run: {', '.join(reasons)}"
    verdict = "" if target.at_least is None else "met" if ratio >= target.at_least else "missed"
    counted = case.one_thread or scaling >= LEAST_SCALING
    return verdict if counted else f"{verdict} (not to be counted)".strip()


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
