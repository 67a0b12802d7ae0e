"""The pages of docs/codecs: each codec has one, and the index has them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dataformats.registry import codecs as registered
from dataformats.spec import NUMBER_TYPES
from dataformats.testing.loop_over import loop_over

PAGES = Path(__file__).parents[2] / "docs" / "codecs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| \[(.*?)\]\((.*?)\) \|(.*)\|$", re.MULTILINE)
CODE = re.compile(r"`([\w]+)[^`]*`")
CODECS = [name for name in registered if registered.shipped(name)]

pytestmark = pytest.mark.skipif(
    not PAGES.exists(), reason="reads the pages of a checkout, and these tests stand outside one"
)


def rows() -> dict[str, tuple[str, str]]:
    """Return codec to (page, the rest of its row), as the table of the index has them."""
    found: dict[str, tuple[str, str]] = {}
    for names, page, rest in ROW.findall((PAGES / "index.md").read_text("utf-8")):
        found |= dict.fromkeys(CODE.findall(names), (page, rest))
    return found


@loop_over("name", CODECS)
def test_every_codec_has_its_row_and_page(name: str) -> None:
    page, rest = rows()[name]
    text = (PAGES / page).read_text("utf-8")
    assert re.search(rf"`{name}\b", text)
    assert BLOCK.search(text)
    assert rest.split("|")[-1].strip().strip("*") == ("yes" if registered.get(name).safe else "no")


def test_every_number_type_is_named_and_nothing_else_is_in_the_table() -> None:
    text = (PAGES / "numbers.md").read_text("utf-8")
    assert [name for name in NUMBER_TYPES if f"`{name}`" not in text] == []
    assert set(rows()) <= {*CODECS, *NUMBER_TYPES}
