"""The directives `ratios` and `costs` of Sphinx: the benchmark's results as SVG.

A line `case: label` of `ratios` shows all peers of a case, `case/peer: label` one of them. With the option `file`, the
build keeps a copy for pages outside the site, and fails if it had to be changed. Coordinates across are percentages, so
that a chart fits a narrow screen without smaller text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

from diagrams import Diagram
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[1] / "tests" / "benchmarks" / "results.json"
STYLE = Path(__file__).with_name("charts.css")
LINE = re.compile(r"(?P<case>[^/:]+)(?:/(?P<peer>[^:]+))?: (?P<label>.+)")
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
TOP, LABEL, BAR, THICK, SPACE, WIDEST = 26, 20, 19, 13, 8, 58  # in pixels; the widest bar in percent
PANEL, PANEL_ROW, FIRST_PANEL, LEFT, RIGHT = 130, 210, 62, 14, 98


def ratios(title: str, lines: list[str]) -> str:
    """Return bars of speedups, on a logarithmic scale with a line at 1.

    Raises:
        ValueError: A line is no `case: label`, or no result has its case and peer.
    """
    bars = [bar for line in filter(None, lines) for bar in _bars(line)]
    low = max(tick for tick in TICKS if tick <= min(0.5, *(row["ratio"] for _, row in bars)))
    width = math.log(max(row["ratio"] for _, row in bars) / low)
    parts: list[str] = []
    y = TOP
    for label, group in groupby(bars, lambda bar: bar[0]):
        y += LABEL
        parts.append(_text(0, y - 6, label))
        for _, row in group:
            begin, end = sorted(WIDEST * math.log(ratio / low) / width for ratio in (1, row["ratio"]))
            size = f'width="{end - begin:.2f}%" height="{THICK}"'
            parts.append(f'<rect class="c{int(row["ratio"] < 1)}" x="{begin:.2f}%" y="{y}" {size}/>')
            parts.append(_text(end, y + 11, f"{row['ratio']:.2f}× {re.split(', | [+]', row['against'])[0]}", dx=8))
            y += BAR
        y += SPACE
    for tick in TICKS:
        x = WIDEST * math.log(tick / low) / width
        if 0 <= x <= WIDEST:
            kind = "tick mid" if x else "tick"
            parts.insert(0, _line(x, TOP - 6, x, y, "one" if tick == 1 else "grid") + _text(x, 12, f"{tick}×", kind))
    sentences = [f"{label}: {row['ratio']:.2f} times as fast as {row['against']}" for label, row in bars]
    return _svg(title, sentences, y, parts)


def _bars(line: str) -> Iterator[tuple[str, dict[str, Any]]]:
    match = LINE.fullmatch(line.strip())
    if not match:
        raise ValueError(f"expected 'case: label' or 'case/peer: label', found {line!r}")
    of_case = [row for row in _results()["rows"] if (row["name"], row["side"]) == (match["case"], "dataformats")]
    found = [row for row in of_case if row["against"].startswith(match["peer"] or "")]
    if not found:
        raise ValueError(f"no result for {line!r}")
    yield from ((match["label"], row) for row in found)


def costs(title: str, _: list[str]) -> str:
    """Return microseconds a record over the number of records, with a panel for each operation."""
    points = _results()["scale"]
    whats, formats, sizes = (list(dict.fromkeys(p[name] for p in points)) for name in ("what", "format", "records"))
    step = (RIGHT - LEFT) / len(sizes)
    places = {n: LEFT + step * (number + 0.5) for number, n in enumerate(sizes)}
    parts = [_dot(1 + 28 * n, 12, n) + _text(1 + 28 * n, 16, name, dx=10) for n, name in enumerate(formats)]
    for number, what in enumerate(whats):
        top = FIRST_PANEL + PANEL_ROW * number
        found = [(point, math.log10(point["us"])) for point in points if point["what"] == what]
        high, low = math.ceil(max(power for _, power in found)), math.floor(min(power for _, power in found))
        scale = PANEL / (high - low)
        parts.append(_text(0, top - 14, what[0].upper() + what[1:], "head"))
        for power in range(low, high + 1):
            y = top + scale * (high - power)
            parts.append(_line(LEFT, y, RIGHT, y, "grid"))
            parts.append(_text(LEFT, y + 4, f"{10.0**power:g} µs", "tick end", dx=-6))
        parts += [_text(x, top + PANEL + 16, f"{n:,}", "tick mid") for n, x in places.items()]
        for color, name in enumerate(formats):
            ends = [(places[p["records"]], top + scale * (high - power)) for p, power in found if p["format"] == name]
            parts += [_line(*begin, *end, f"c{color}") for begin, end in pairwise(ends)]
            parts += [_dot(x, y, color) for x, y in ends]
    sentences = [f"{p['what']}, {p['format']}, {p['records']:,} records: {p['us']} µs" for p in points]
    return _svg(title, sentences, FIRST_PANEL + PANEL_ROW * len(whats) - 50, parts)


def _results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return results


def _text(x: float, y: float, text: str, kind: str = "", dx: float = 0) -> str:
    return f'<text class="{kind}" x="{x:.2f}%" y="{y:.0f}" dx="{dx}">{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.2f}%" y1="{y:.1f}" x2="{to_x:.2f}%" y2="{to_y:.1f}"/>'


def _dot(x: float, y: float, color: int) -> str:
    return f'<circle class="c{color}" cx="{x:.2f}%" cy="{y:.1f}" r="3.5"/>'


def _svg(title: str, sentences: list[str], height: int, parts: list[str]) -> str:
    head = f"<title>{escape(title)}</title><desc>{escape('; '.join(sentences))}</desc>"
    style = f"<style>{STYLE.read_text('utf-8')}</style>"
    start = f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" height="{height}" role="img">'
    return "".join((start, head, style, *parts, "</svg>"))


class Chart(Diagram):
    """A directive of this module."""

    option_spec: ClassVar[dict[str, Any]] = {"file": directives.path}

    def run(self) -> list[nodes.Node]:
        found = super().run()
        if file := self.options.get("file"):
            copy = STYLE.with_name(file)
            svg = found[0].astext().replace("<svg ", '<svg style="background:#fff;margin:0" ', 1) + "\n"
            if not copy.exists() or copy.read_text("utf-8") != svg:
                copy.write_text(svg, "utf-8")
                raise self.warning(f"docs/{file} was not this chart, and is now: commit it")
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives; called by Sphinx."""
    for draw in (ratios, costs):
        app.add_directive(draw.__name__, type(draw.__name__, (Chart,), {"draw": staticmethod(draw)}))
    app.connect("env-get-outdated", lambda *_: ["index", "performance"])  # they do not change if the results do
    return {"parallel_read_safe": True}
