"""The pages of docs/: the Python blocks of each run, one after the other, and print what they say; links lead
somewhere; the table of types says what the formats do.

The pages of codecs are run by tests/deep/docs/test_codec_pages.py, block by block.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataformats.codecs.features.lists import (
    BYTES,
    DOUBLES,
    EXAMPLE_LISTS,
    FLOATS,
    INT32S,
    INTEGERS,
    OFRECORD_LISTS,
    Lists,
)
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsBackend
from dataformats.registry import backends
from dataformats.spec import Spec, Type

CHECKOUT = Path(__file__).parents[3]
DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
NAMES = {"bytes": BYTES, "FloatList": FLOATS, "Int64List": INTEGERS, "DoubleList": DOUBLES, "Int32List": INT32S}
TYPE = re.compile(r"`([^`]+)`")

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="reads the pages of a checkout, and these tests are outside")


def blocks_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text("utf-8"))


WITH_BLOCKS = [page for page in PAGES if blocks_of(page) and page.parent.name != "codecs"]


def matches(line: str, expected: str) -> bool:
    """Return True where a line is what the page says, in which `...` is anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), line) is not None


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_blocks_run_and_print_what_they_say(page: Path, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "golden").symlink_to(CHECKOUT / "tests" / "golden")
    text = "\n".join(blocks_of(page))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=tmp_path,
        env=os.environ | {"DATAFORMATS_CACHE": str(tmp_path / "cache"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines, expected = done.stdout.splitlines(), PRINTED.findall(text)
    assert [matches(*pair) for pair in zip(lines, expected, strict=True)] == [True] * len(expected), done.stdout


def test_commands_run(tmp_path: Path) -> None:
    commands = [line for page in PAGES for block in SHELL.findall(page.read_text("utf-8")) for line in joined(block)]
    assert commands
    for path in (CHECKOUT / "tests" / "golden" / "real").glob("*.tfrecord"):
        shutil.copy(path, tmp_path)
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "dataformats"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "dataformats", *arguments],
            cwd=tmp_path,
            env=os.environ | {"DATAFORMATS_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def joined(block: str) -> list[str]:
    return block.replace("\\\n", "").splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_index_leads_to_every_page() -> None:
    text = (DOCS / "index.md").read_text("utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES]
    of_codecs = [name for name in pages if name.startswith("codecs/") and name != "codecs/index.md"]
    assert [name for name in pages if name != "index.md" and name not in of_codecs and f"({name})" not in text] == []


def test_every_format_has_a_page() -> None:
    shipped = [name for name in backends if backends.shipped(name)]
    assert sorted(page.stem for page in (DOCS / "formats").glob("*.md")) == sorted(shipped)


# ---- the table of types


def type_rows() -> list[tuple[Type, list[str]]]:
    """Return each type of the table with what stands in the columns of the formats."""
    section = (DOCS / "conversion.md").read_text("utf-8").partition("\n| type |")[2].partition("\n\n")[0]
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines()[2:]]
    return [(Type.parse(text), [cell.strip("| ") for cell in cells]) for _, *cells in lines for text in TYPE.findall(_)]


ROWS = type_rows() if DOCS.exists() else []


def test_the_table_of_types_is_found() -> None:
    assert len(ROWS) > 40
    assert all(len(cells) == 4 for _, cells in ROWS)


@pytest.mark.parametrize(("kind", "cells"), ROWS, ids=lambda value: str(value) if isinstance(value, Type) else "")
def test_the_table_of_types(kind: Type, cells: list[str]) -> None:
    example, ofrecord, syrah, granular = cells
    assert stored_by("syrah", kind) == meant(kind, syrah)
    assert stored_by("granular", kind) == meant(kind, granular)
    assert list_of(EXAMPLE_LISTS, kind) == example
    assert list_of(OFRECORD_LISTS, kind) == ofrecord


def meant(kind: Type, cell: str) -> str:
    return str(kind) if cell == "the same" else cell.strip("`")


def stored_by(format: str, kind: Type) -> str:
    backend = backends.get(format)
    assert isinstance(backend, FieldsBackend)
    try:
        return str(backend.stored_spec(Spec({"field": kind}))["field"])
    except SpecError:
        return "refused"


def list_of(lists: Lists, kind: Type) -> str:
    if kind.optional:
        return "left out"
    if kind.dtype is None:
        return "bytes"
    inner = kind.item if kind.dims[:1] == (None,) else kind
    wanted = lists.for_type(kind.codec, of_scalars=not inner.dims)
    return next(name for name, number in NAMES.items() if number == wanted)
