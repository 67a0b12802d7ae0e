"""The results as a table: for the terminal, and in Markdown for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.costs import Cost
from tests.benchmarks.harness import Case, Result, Target

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


def cost_rows(costs: Sequence[Cost]) -> list[Row]:
    """Return the rows of the loader's costs."""
    return [
        Row(
            f"Loader, {cost.what}",
            "dataformats",
            cost.found,
            "",
            "",
            "",
            cost.limit,
            "met" if cost.met else "missed",
            "",
        )
        for cost in costs
    ]


def terminal(rows: Sequence[Row]) -> str:
    """Return lines for a terminal: each work, and its rows below it."""
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in lines) for column in range(len(HEADS))]
    padded = [[cell.ljust(width) for cell, width in zip(cells, widths, strict=True)] for cells in lines]
    text = [rows[0].work, "  ".join(["", *padded[0][1:]]).rstrip()]
    for before, row, cells in zip([rows[0], *rows], rows, padded[1:], strict=False):
        text += [row.work] * (row.work != before.work) + ["  ".join(["", *cells[1:]]).rstrip()]
    return "\n".join([*text, ""])


def markdown(rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    """Return a Markdown table, with the facts about the machine below."""
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
    return Row(
        result.title,
        target.side,
        _seconds(result.median_s(target.side)),
        target.against,
        _seconds(result.median_s(target.against)),
        "" if ratio is None else f"{ratio:.2f}×",
        "" if target.at_least is None else f"{target.at_least:g}×",
        _verdict(result, target),
        "" if case.one_thread else _scaling(result),
    )


def _verdict(result: Result, target: Target) -> str:
    ratio = result.ratio(target)
    if ratio is None:
        reasons = [result.missing[side] for side in (target.side, target.against) if side in result.missing]
        return f"not run: {', '.join(reasons)}"
    verdict = "" if target.at_least is None else "met" if ratio >= target.at_least else "missed"
    return verdict if result.counts else f"{verdict} (not to be counted)".strip()


def _scaling(result: Result) -> str:
    return f"{result.scaling_of_rounds():.2f}× ({len(result.counted)} of {len(result.scaling)} rounds)"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
