"""The directive `diagram` of Sphinx: boxes and arrows, drawn as SVG from lines of text. Needs no other program.

A line `A -> B: text` is an arrow with a label; a line `A: text` describes a box. The longest way to a box is its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ARROW = re.compile(r"(?P<tail>.+?) -> (?P<head>[^:]+)(?:: (?P<label>.+))?")
BOX = re.compile(r"(?P<name>[^:]+): (?P<text>.+)")

CHARACTER, BOX_HEIGHT, ROW_HEIGHT, GAP = 7.3, 42, 92, 90
STYLE = (
    "svg.diagram{max-width:100%;height:auto;font:12px monospace;fill:currentColor}"
    "svg.diagram path,svg.diagram rect{fill:none;stroke:currentColor}"
    "svg.diagram text{text-anchor:middle}"
    "svg.diagram .note{font:11px sans-serif;stroke:var(--color-background-primary,#fff);stroke-width:4;"
    "paint-order:stroke}"
)


def draw(title: str, lines: list[str]) -> str:
    """Return the SVG of a diagram.

    Raises:
        ValueError: A line is neither an arrow nor the description of a box, or arrows form a circle.
    """
    rows: dict[str, int] = {}
    texts: dict[str, str] = {}
    arrows: list[tuple[str, str, str]] = []
    for line in filter(None, map(str.strip, lines)):
        arrow, box = ARROW.fullmatch(line), BOX.fullmatch(line)
        if arrow:
            arrows.append((arrow["tail"], arrow["head"], arrow["label"] or ""))
            rows |= {name: rows.get(name, 0) for name in arrows[-1][:2]}
        elif box:
            texts[box["name"]] = box["text"]
        else:
            raise ValueError(f"expected 'A -> B: label' or 'A: text', found {line!r}")
    if texts.keys() - rows.keys():
        raise ValueError(f"no arrow leads to or from {sorted(texts.keys() - rows.keys())}")
    for _ in rows:
        for tail, head, _label in arrows:
            rows[head] = max(rows[head], rows[tail] + 1)
    if max(rows.values(), default=0) >= len(rows):
        raise ValueError("the arrows form a circle")

    widths = {name: CHARACTER * max(len(name), 0.85 * len(texts.get(name, ""))) + 20 for name in rows}
    floors = [[name for name in rows if rows[name] == row] for row in range(max(rows.values()) + 1)]
    lengths = [sum(widths[name] + GAP for name in floor) - GAP for floor in floors]
    width = max(lengths) + 2
    centers: dict[str, tuple[float, float]] = {}
    for row, (floor, length) in enumerate(zip(floors, lengths, strict=True)):
        left = (width - length) / 2
        for name in floor:
            centers[name] = left + widths[name] / 2, row * ROW_HEIGHT + BOX_HEIGHT / 2 + 1
            left += widths[name] + GAP

    paths, parts = [], []
    for tail, head, label in arrows:
        (x, y), (to_x, to_y) = centers[tail], centers[head]
        y, to_y = y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2
        paths.append(f'<path d="M{x:.0f} {y:.0f}L{to_x:.0f} {to_y:.0f}" marker-end="url(#arrow)"/>')
        parts.append(f'<text class="note" x="{(x + to_x) / 2:.0f}" y="{(y + to_y) / 2 + 4:.0f}">{escape(label)}</text>')
    for name, (x, y) in centers.items():
        left, top = x - widths[name] / 2, y - BOX_HEIGHT / 2
        parts.append(f'<rect x="{left:.0f}" y="{top:.0f}" width="{widths[name]:.0f}" height="{BOX_HEIGHT}" rx="5"/>')
        parts.append(f'<text x="{x:.0f}" y="{y - 3 if name in texts else y + 4:.0f}">{escape(name)}</text>')
        parts.append(f'<text class="note" x="{x:.0f}" y="{y + 14:.0f}">{escape(texts.get(name, ""))}</text>')
    height = len(floors) * ROW_HEIGHT - (ROW_HEIGHT - BOX_HEIGHT) + 2
    return (
        f'<svg class="diagram" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img"><title>{escape(title)}</title><style>{STYLE}</style>'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M1 1L8 4L1 7"/></marker></defs>{"".join(paths + parts)}</svg>'
    )


class Diagram(Directive):
    """The directive; its argument is the title, for readers who cannot see the diagram."""

    required_arguments: ClassVar[int] = 1
    final_argument_whitespace: ClassVar[bool] = True
    has_content: ClassVar[bool] = True

    draw: ClassVar[Callable[[str, list[str]], str]] = staticmethod(draw)

    def run(self) -> list[nodes.Node]:
        try:
            return [nodes.raw("", self.draw(self.arguments[0], list(self.content)), format="html")]
        except ValueError as error:
            raise self.error(f"{self.name} {self.arguments[0]!r}: {error}") from error


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive; called by Sphinx."""
    app.add_directive("diagram", Diagram)
    return {"parallel_read_safe": True}
