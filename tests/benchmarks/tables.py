"""The results as tables: for the terminal, and in Markdown for the page and for the list of targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import OURS, Case, Result, Target
from tests.benchmarks.topics import TOPICS

CHECKOUT = Path(__file__).parents[2]
RESULTS, TARGETS = Path("tests/benchmarks/results.json"), Path("tests/benchmarks/results.md")
PAGE = Path("docs/performance.md")
HEADS = ("work", "side", "median", "against", "its median", "ratio", "target", "", "two threads")
PAGE_HEADS = ("work", "ratio", "against", OURS, "the other")
BEGIN, END = "<!-- make bench: {} -->", "<!-- make bench: end -->"
BOUNDS = ("cat", "cp, then cat", "numpy, arrays in memory", "os.read of 1 MB blocks")
"""The sides that do less than the work, which no program can be much faster than."""


@dataclass(frozen=True)
class Row:
    """One comparison: our side and a peer, with the median of each."""

    name: str
    work: str
    side: str = ""
    ours_s: float | None = None
    against: str = ""
    theirs_s: float | None = None
    ratio: float | None = None
    target: float | None = None
    verdict: str = ""
    scaling: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the texts in the order of `HEADS`."""
        target = "" if self.target is None else f"{self.target:g}×"
        sides = (self.side, _seconds(self.ours_s), self.against, _seconds(self.theirs_s))
        return (self.work, *sides, _times(self.ratio), target, self.verdict, self.scaling)

    def page_cells(self) -> tuple[str, ...]:
        """Return the texts in the order of `PAGE_HEADS`."""
        option = self.side.removeprefix(OURS).removeprefix(", ")
        work = f"{self.work}, {option}" if option else self.work
        return (work, _times(self.ratio), self.against, _seconds(self.ours_s), _seconds(self.theirs_s))


def rows_of(case: Case, result: Result) -> list[Row]:
    """Return the rows of a case."""
    return [_row(case, result, target) for target in case.rows]


def terminal(rows: Sequence[Row]) -> str:
    """Return lines for a terminal: each work, and its rows below it."""
    lines = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in lines) for column in range(len(HEADS))]
    padded = [[cell.ljust(width) for cell, width in zip(cells, widths, strict=True)] for cells in lines]
    return "\n".join([rows[0].work, *("  ".join(["", *cells[1:]]).rstrip() for cells in padded), ""])


def update(
    checkout: Path, rows: Iterable[Row], facts: Mapping[str, str], **figures: Sequence[Mapping[str, Any]]
) -> None:
    """Replace these rows and figures in the results of a checkout, and write its tables anew."""
    path = checkout / RESULTS
    results = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
    both = (row for row in (*results["rows"], *map(asdict, rows)) if row["ratio"] is not None)
    merged = {(row["name"], row["side"], row["against"]): row for row in both}
    order = [case.name for cases in TOPICS.values() for case in cases]
    results |= {name: found for name, found in figures.items() if found}
    results |= {"facts": dict(facts), "rows": sorted(merged.values(), key=lambda row: order.index(row["name"]))}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, ensure_ascii=False).replace("}, {", "},\n{")  # a row is a line of a diff
    path.write_text(f"{text}\n", "utf-8")
    render(checkout)


def render(checkout: Path) -> None:
    """Write the tables of a checkout from its results."""
    results = json.loads((checkout / RESULTS).read_text("utf-8"))
    rows = [Row(**row) for row in results["rows"]]
    text = "# Targets of the benchmarks\n\n`python -m tests.benchmarks --update` writes this page.\n\n"
    text += _table(HEADS, (row.cells() for row in rows))
    costs = [cost.values() for cost in results.get("costs", ())]
    (checkout / TARGETS).write_text(f"{text}\n\n{_table(('cost', 'median', 'target', 'met'), costs)}\n", "utf-8")
    _put_into(checkout / PAGE, "slower", slower(rows))
    _put_into(checkout / PAGE, "figures", "\n\n".join(_figures(rows, results)))


def slower(rows: Sequence[Row]) -> str:
    """Return the comparisons that a peer wins, the slowest first, and the range of each bound."""
    worst: dict[tuple[str, str], Row] = {}
    for row in sorted((row for row in rows if row.ratio and row.against not in BOUNDS), key=lambda row: row.ratio or 0):
        worst.setdefault((row.work, row.against), row)
    lines = [
        f"- {_times(row.ratio)} the speed of {row.against}: {row.page_cells()[0]}"
        for row in worst.values()
        if (row.ratio or 1) < 1
    ]
    bounds = [
        f"{bound} ({' to '.join(dict.fromkeys((_times(min(ratios)), _times(max(ratios)))))})"
        for bound in BOUNDS
        if (ratios := [row.ratio for row in rows if row.against == bound and row.ratio])
    ]
    head = f"dataformats is slower than a peer in {len(lines)} of {len(worst)} comparisons:"
    return "\n".join([head, "", *lines, "", f"Sides that do less than the work are bounds: {'; '.join(bounds)}."])


def _times(ratio: float | None) -> str:
    """Return a ratio as text."""
    return "" if ratio is None else f"{ratio:.2f}×"


def _figures(rows: Sequence[Row], results: Mapping[str, Any]) -> Iterator[str]:
    for topic, cases in TOPICS.items():
        names = {case.name for case in cases}
        of_topic = [row.page_cells() for row in rows if row.name in names]
        if of_topic:
            yield f"### {topic}\n\n{_table(PAGE_HEADS, of_topic)}"
    if costs := results.get("costs"):
        yield "### Costs of a Loader\n\n" + _table(
            ("cost", "median"), ((cost["what"], cost["found"]) for cost in costs)
        )
    if scale := results.get("scale"):
        lines: dict[tuple[str, str], list[str]] = {}
        for point in scale:
            lines.setdefault((point["what"], point["format"]), []).append(f"{point['us']:.3f}")
        sizes = dict.fromkeys(f"{point['records']:,}" for point in scale)
        table = _table(("µs a record", "format", *sizes), ((*names, *costs) for names, costs in lines.items()))
        yield f"### Cost over the number of records\n\n{table}"
    yield "\n".join(f"- {name}: {value}" for name, value in results["facts"].items())


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def _put_into(page: Path, part: str, text: str) -> None:
    """Write a text between the marks of a part of a page."""
    begin = BEGIN.format(part)
    before, found, rest = page.read_text("utf-8").partition(begin)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise SystemExit(f"{page}: expected the lines {begin} and {END}, between which the results go")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", "utf-8")


def _row(case: Case, result: Result, target: Target) -> Row:
    return Row(
        case.name,
        result.title,
        target.side,
        _rounded(result.median_s(target.side)),
        target.against,
        _rounded(result.median_s(target.against)),
        _rounded(result.ratio(target)),
        target.at_least,
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    render(CHECKOUT)
