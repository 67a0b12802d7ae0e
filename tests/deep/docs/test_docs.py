"""The pages of docs/: their blocks run and print the stated output, and the table of types matches the formats."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataformats.codecs.features.list_kinds import (
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
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
NAMES = {"bytes": BYTES, "FloatList": FLOATS, "Int64List": INTEGERS, "DoubleList": DOUBLES, "Int32List": INT32S}
LOGS = {
    "from torch.utils.tensorboard import SummaryWriter": "tensorboard",
    "import lightning": "lightning",
    "import wandb": "wandb",
}
TYPE = re.compile(r"`([^`]+)`")

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="reads the pages of a checkout, and these tests are outside")


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Return the blocks that run, each with its language; a `text` block only if it shows output of `sh`.

    A block that imports a library for logs runs if that is installed.
    """
    blocks = [block for block in BLOCK.findall(page.read_text("utf-8")) if not lacks_library(block[1])]
    before = ["", *(language for language, _ in blocks)]
    return [block for block, last in zip(blocks, before, strict=False) if block[0] != "text" or last == "sh"]


def lacks_library(text: str) -> bool:
    """Return True if a block imports a library for logs that is not installed."""
    return any(f"{line}\n" in text and importlib.util.find_spec(library) is None for line, library in LOGS.items())


def programs() -> list[tuple[Path, list[tuple[str, str]]]]:
    """Return the blocks of each page, which run together; the blocks of a page of codecs run one by one."""
    whole = [(page, blocks_of(page)) for page in PAGES if page.parent.name != "codecs" and blocks_of(page)]
    return whole + [(page, [block]) for page in PAGES if page.parent.name == "codecs" for block in blocks_of(page)]


def matches(line: str, expected: str) -> bool:
    """Return True if a line matches the page, whose `...` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), line, re.DOTALL) is not None


def test_matches_can_fail() -> None:
    assert matches("bytes: 12", "bytes: ...")
    assert not matches("bytes: 12", "bytes: 1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the example files of the site, and the real TFRecords and the scripts of a checkout."""
    for path in runpy.run_path(str(DOCS / "example_files.py"))["example_files"]():
        copy = tmp_path / path.relative_to(CHECKOUT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    for path in (CHECKOUT / "tests" / "golden" / "real").glob("*.tfrecord"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("page", "blocks"), programs(), ids=lambda part: f"{part.parent.name}-{part.stem}" if isinstance(part, Path) else ""
)
def test_blocks_of_pages_print_their_stated_output(page: Path, blocks: list[tuple[str, str]], folder: Path) -> None:
    if page.stem in ("videos", "audio"):
        pytest.importorskip("av", reason="needs the extra 'video'")
    script, expected = [PRELUDE], []
    for language, text in blocks:
        if language == "python":
            script.append(text)
            expected += PRINTED.findall(text)
        elif language == "sh":
            script.append(f"_printed = _shell({text!r})\n")
        else:
            script.append("print(end=_printed)\n")
            expected += text.splitlines()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "".join(script)],
        cwd=folder,
        env=os.environ | {"DATAFORMATS_CACHE": str(folder / "cache"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [matches(*pair) for pair in zip(lines, expected, strict=True)] == [True] * len(expected), done.stdout


# Ignores warnings about Lightning's own code. Runs commands by the interpreter of the tests, one per line; returns the
# output of the last one.
PRELUDE = """
import warnings
warnings.filterwarnings("ignore", module="lightning")
def _shell(text):
    import shlex, subprocess, sys
    for line in text.replace("\\\\\\n", "").splitlines():
        name, *arguments = shlex.split(line)
        assert name == "dataformats", line
        command = [sys.executable, "-W", "error", "-m", "dataformats", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, line + done.stderr
    return done.stdout
"""


# ---- the table of types


def type_rows() -> list[tuple[Type, list[str]]]:
    """Return each type of the table with its cells in the columns of the formats."""
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
