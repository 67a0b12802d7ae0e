"""The pages of docs/: links lead somewhere, indexes list every page, and the API reference has every public name."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataformats.registry import backends
from dataformats.testing.loop_over import loop_over

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTED = re.compile(r"^\.\. auto(?:class|function|data):: ([\w.]+)(?:\(\))?$", re.MULTILINE)

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="reads the pages of a checkout, and these tests are outside")


TREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@loop_over("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@loop_over("page", [page for page in PAGES if "{literalinclude}" in page.read_text("utf-8")])
def test_included_code_exists(page: Path) -> None:
    included = re.findall(r"\{literalinclude\} (\S+)\n:language: python\n:pyobject: (\w+)", page.read_text("utf-8"))
    assert included
    missing = [name for path, name in included if f" {name}(" not in (page.parent / path).read_text("utf-8")]
    assert missing == []


BLOCK = re.compile(r"^```(?:python|\{code-block\} python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@loop_over("page", [*PAGES, CHECKOUT / "README.md"])
def test_blocks_end_and_are_python(page: Path) -> None:
    text = page.read_text("utf-8")
    assert [line for line in text.splitlines() if "```" in line and not line.lstrip(" >").startswith("```")] == []
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 == 0
    for block in BLOCK.findall(text):
        ast.parse(block)


# CONTRIBUTING.md, "Prose": private phrases, and British spelling.
FORBIDDEN = re.compile(
    r"gone on with|\bas ever\b|is none|of its own|\btold\b|said of|by the way|what there is|whoever|nobody"
    r"|data sets?\b|neighbour|colour|behaviour|recognis|initialis|licence"
)


@loop_over("page", [*PAGES, CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md"])
def test_pages_use_plain_words(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    assert [line for line in lines if FORBIDDEN.search(line)] == []


# Fragments and pronouns in place of the noun: "Of the call.", "Likewise.", "that of", ", of which".
FRAGMENT = re.compile(
    r"\b(?:that|those)\s+of\b|(?:^|[,;(])\s*of\s+which\b|(?:^[ |]*|: |\. )(?:Of|Likewise|As given)\b|\blikewise\b",
    re.MULTILINE,
)


def prose(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a module."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield inspect.cleandoc(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#: ")
            goes_on = token.line.lstrip().startswith("#")  # perhaps in the middle of a sentence
            yield text if goes_on else text[:1].upper() + text[1:]


@pytest.mark.parametrize(
    "folder", ["dataformats", "backends", "codecs", "compat/dataformats_compat", "loaders", "examples", "docs"]
)
def test_modules_use_plain_words(folder: str) -> None:
    paths = [path for path in sorted((CHECKOUT / folder).rglob("*.py")) if path.resolve() == path]
    assert paths
    texts = [(path.name, text) for path in paths for text in prose(path)]
    found = [(name, text) for name, text in texts if FORBIDDEN.search(text) or FRAGMENT.search(text)]
    assert found == []


@loop_over("page", [*PAGES, CHECKOUT / "README.md"])
def test_pages_have_whole_sentences(page: Path) -> None:
    assert [match.group() for match in FRAGMENT.finditer(page.read_text("utf-8"))] == []


@loop_over("folder", [".", "api", "architecture", "codecs", "formats", "tutorials"])
def test_tables_of_contents_list_every_page(folder: str) -> None:
    indexes = [DOCS / "index.md", DOCS / folder / "index.md"]
    trees = [tree for page in indexes if page.exists() for tree in TREE.findall(page.read_text("utf-8"))]
    listed = {entry.rpartition("<")[2].rstrip(">") for tree in trees for entry in tree.splitlines()}
    pages = [page for page in (DOCS / folder).glob("*.md") if page.stem != "index"]
    assert pages
    assert [page.stem for page in pages if not {page.stem, f"{folder}/{page.stem}"} & listed] == []


def test_every_format_has_a_page() -> None:
    shipped = [name for name in backends if backends.shipped(name)]
    assert sorted(page.stem for page in (DOCS / "formats").glob("*.md") if page.stem != "index") == sorted(shipped)


def test_page_of_formats() -> None:
    """It has a section for each format; first bytes and names in folders are found in the golden files."""
    page = (DOCS / "which-format.md").read_text("utf-8")
    assert re.findall(r"^\((\w+)\)=$", page, re.MULTILINE) == [name for name in backends if backends.shipped(name)]
    rows = re.findall(r"^\| `(?:([0-9a-f ]+)|([\w.-]+))`.*\[\]\(#(\w+)\)", page, re.MULTILINE)
    assert len(rows) > 15
    for begin, name, format in rows:
        files = [path for path in (CHECKOUT / "tests" / "golden" / format).rglob(name or "*") if name or path.is_file()]
        assert any(path.name == name or path.read_bytes().startswith(bytes.fromhex(begin)) for path in files), format


def named(path: str) -> object:
    """Return the object of an import path of the reference."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


LISTED = [path for page in (DOCS / "api").glob("*.md") for path in DOCUMENTED.findall(page.read_text("utf-8"))]
PACKAGES = {"duckdb": "duckdb", "huggingface": "datasets", "polars": "polars", "ray": "ray"}  # the tests may lack them
LACKING = tuple(
    f"dataformats.interop.{name}." for name, one in PACKAGES.items() if importlib.util.find_spec(one) is None
)
REFERENCE = [path for path in LISTED if not path.startswith(LACKING)]


def test_reference_lists_every_name_once() -> None:
    assert len(REFERENCE) > 80
    assert len({id(named(path)) for path in REFERENCE}) == len(REFERENCE)


def imported(program: str) -> set[tuple[str, str]]:
    """Return the imports of a program from this package and the names it uses: pairs of module and name."""
    tree = ast.parse(program)
    pairs = {
        (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    pairs |= {("dataformats", name) for name in re.findall(r"\bdataformats\.(\w+)\(", program)}
    pairs.discard(("dataformats", "interfaces"))  # as df: the names behind it count
    pairs |= {("dataformats.interfaces", name) for name in re.findall(r"\bdf\.(\w+)", program)}
    whole = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    pairs |= {(name, "") for name in whole if name.startswith("dataformats.")}
    return {(module, name) for module, name in pairs if module.split(".")[0] == "dataformats"}


def test_extensions_need_only_public_names() -> None:
    page = (DOCS / "extending.md").read_text("utf-8")
    files = {CHECKOUT / "docs" / path for path in re.findall(r"\{literalinclude\} (\S+\.py)", page)}
    found = set().union(*(imported(program) for program in [*BLOCK.findall(page), *(f.read_text() for f in files)]))
    assert len(found) > 20
    public = ("dataformats", "dataformats.interfaces", "dataformats.testing")
    documented = {id(named(path)) for path in REFERENCE}
    assert [pair for pair in sorted(found) if pair[0] not in public] == []
    assert [pair for pair in sorted(found) if id(named(".".join(pair))) not in documented] == []


def test_the_readme_of_worker_processes_lists_every_file() -> None:
    folder = CHECKOUT / "loaders" / "processes"
    rows = [row for row in (folder / "README.md").read_text("utf-8").splitlines() if row.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+\.py)`", row.split("|")[1])}
    assert listed == {path.name for path in folder.glob("*.py")} - {"__init__.py"}
