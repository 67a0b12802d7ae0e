"""The page of the results is made from them, and says first where a peer is faster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.benchmarks.tables import CHECKOUT, PAGE, RESULTS, TARGETS, Row, render, slower

pytestmark = pytest.mark.skipif(not (CHECKOUT / PAGE).exists(), reason="reads a page of a checkout")


def test_page_and_targets_are_made_from_the_results(tmp_path: Path) -> None:
    for path in (PAGE, RESULTS):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copy(CHECKOUT / path, tmp_path / path)
    render(tmp_path)
    for path in (PAGE, TARGETS):
        assert (tmp_path / path).read_text("utf-8") == (CHECKOUT / path).read_text("utf-8"), (
            "python -m tests.benchmarks.tables writes it anew"
        )


def test_page_shows_no_targets() -> None:
    text = (CHECKOUT / PAGE).read_text("utf-8")
    assert text.index("slower than a peer") < text.index("{ratios}") < text.index("| work | ratio |")
    assert "not to be counted" not in text


def test_slower_lists_each_comparison_once_and_bounds_apart() -> None:
    rows = [
        Row("a", "A", "dataformats", 2, "Python", 1, 0.5),
        Row("a", "A", 'dataformats, cache="memory"', 2, "Python", 1, 0.4),
        Row("b", "B", "dataformats", 1, "Python", 2, 2.0),
        Row("c", "C", "dataformats", 2, "cat", 1, 0.5),
    ]
    assert slower(rows).splitlines() == [
        "dataformats is slower than a peer in 1 of 2 comparisons:",
        "",
        '- 0.40× the speed of Python: A, cache="memory"',
        "",
        "Sides that do less than the work are bounds: cat (0.50×).",
    ]
