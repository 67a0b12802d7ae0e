"""Names of tests: subject, verb and result, without words that stand for a noun."""

from __future__ import annotations

import re
from pathlib import Path

import dataformats.testing

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS, TESTS.parent / "compat" / "tests", Path(dataformats.testing.__file__).parent)


def test_test_names_use_nouns() -> None:
    names = {
        name
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        for name in re.findall(r"\bdef (test_\w+)", path.read_text("utf-8"))
    }
    assert "test_test_names_use_nouns" in names
    assert sorted(name for name in names if re.search(r"_(what|that|those|who)(_|$)", name)) == []
