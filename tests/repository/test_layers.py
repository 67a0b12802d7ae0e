"""Layers: checks every import of the package, and the pages about architecture, against the layers and rooms."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import dataformats
import dataformats.kernels

# Room (a name directly under `dataformats`) -> level. A module imports its own level or a lower one. A
# room that has no level yet fails the test: give it one. A level may name rooms that do not exist.
LEVELS = {
    "errors": 0,
    "fork_hooks": 0,
    "fork_server": 0,
    "integer_arguments": 0,
    "foreign_names": 0,
    "optional_imports": 0,
    "protobuf_wire": 0,
    "kernels": 1,
    "registry": 3,
    "spec": 1,
    "batch": 2,
    "display": 2,
    "interfaces": 3,
    "columns": 4,
    "storage": 4,
    "indexing": 5,
    "sidecars": 5,
    "reading": 6,
    "staging": 6,
    "writing": 6,
    "converting": 7,
    "inspecting": 7,
    "repairing": 7,
    "merging": 7,
    "backends": 8,
    "codecs": 8,
    "loaders": 8,
    "cli": 9,
    "images": 9,
    "internals": 9,
    "interop": 9,
    "testing": 9,
    "videos": 9,
    "viewer": 9,
    "__main__": 9,
    "__init__": 10,  # the public package: imports everything, and no module inside imports it
}
# Modules that load a higher room when a name or method is used, and never at import.
DEFERRED = {
    ("dataformats.interfaces", "indexing"),  # the list of public names has the base classes of readers
    ("dataformats.interfaces", "storage"),
    ("dataformats.interfaces", "writing"),
    ("dataformats.interfaces.record_source", "reading"),  # a source makes views, and a view is a source
    ("dataformats.reading.conditions", "interop"),  # a condition in SQL needs the extra `duckdb`
}
WINGS = {"backends", "codecs", "loaders"}
PACKAGE = Path(dataformats.kernels.__file__).parents[1]
PAGES = PACKAGE.parent / "docs" / "architecture"


@dataclass(frozen=True)
class Import:
    module: str  # the importing module
    target: str  # the imported module of this package
    line: int
    runs_on_import: bool  # False inside a function or for type checkers alone

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.module), room_of(self.target)

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}: imports {self.target}"


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def source_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():  # links to the wings too
            yield from source_files(path)
        elif path.suffix == ".py":
            yield path


def name_of(path: Path) -> str:
    parts = ("dataformats", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in source_files(PACKAGE)}


def targets_of(node: ast.Import | ast.ImportFrom, module: str) -> list[str]:
    """The modules that one import statement names, whole names, also outside this package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    whole = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in MODULES else base for name in whole]


def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def statements(node: ast.AST) -> list[ast.AST]:
    """Return the statements directly inside a node: expressions import nothing."""
    return [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.ExceptHandler | ast.match_case)]


def is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name | ast.Attribute) and "TYPE_CHECKING" in ast.unparse(test)


def imports_of(module: str) -> Iterator[Import]:
    waiting: list[tuple[ast.AST, bool]] = [(parsed(module), True)]
    while waiting:
        node, runs = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in targets_of(node, module):
                if target.split(".")[0] == "dataformats":
                    yield Import(module, target, node.lineno, runs)
            continue
        if isinstance(node, ast.If) and is_type_checking(node.test):
            waiting += [(child, False) for child in node.body]
            waiting += [(child, runs) for child in node.orelse]
            continue
        inside = runs and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        waiting += [(child, inside) for child in statements(node)]


@cache
def imports() -> list[Import]:
    return [found for module in MODULES for found in imports_of(module)]


def test_something_was_read() -> None:
    assert "dataformats.kernels.reference" in MODULES
    assert any(found.target == "dataformats.kernels.reference" for found in imports())


def test_every_room_has_a_level() -> None:
    assert {room_of(module) for module in MODULES} <= LEVELS.keys()


def test_nothing_imports_a_higher_level() -> None:
    def climbs(found: Import) -> bool:
        importer, imported = found.rooms
        if not found.runs_on_import and (found.module, imported) in DEFERRED:
            return False
        return LEVELS.get(imported, -1) > LEVELS.get(importer, 99)

    assert [str(found) for found in imports() if climbs(found)] == []


def test_no_module_imports_the_drop_in_modules() -> None:
    text = {module: path.read_text("utf-8") for module, path in MODULES.items()}
    assert [module for module in text if re.search(r"\b(from|import) dataformats_compat\b", text[module])] == []


def test_a_wing_never_imports_another() -> None:
    def crosses(found: Import) -> bool:
        importer, imported = found.rooms
        return importer != imported and {importer, imported} <= WINGS

    assert [str(found) for found in imports() if crosses(found)] == []


def private_names(cls: type) -> Iterator[str]:
    """The private attributes of a class: names in its body, and names that its methods assign on `self`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store):
            yield node.attr


def source_classes(cls: type) -> Iterator[type]:
    yield cls
    derived: type
    for derived in cls.__subclasses__():
        yield from source_classes(derived)


# Attributes of fsspec's file systems and torch's operators that sources have by coincidence.
NO_SOURCES = {"fs._parent", "self._fs._parent", "func._schema"}


def test_no_module_uses_private_members_of_sources() -> None:
    for module in ("blob_source", "concat", "joined", "table_source", "views"):
        importlib.import_module(f"dataformats.reading.{module}")
    owners: dict[str, set[str]] = {}  # private name -> the modules whose sources have it
    for cls in source_classes(dataformats.RecordSource):
        if cls.__module__ in MODULES:
            for name in private_names(cls):
                if name.startswith("_") and not name.startswith("__"):
                    owners.setdefault(name, set()).add(cls.__module__)
    assert {"_parent", "_read_stored", "_reader"} <= owners.keys()
    found = [
        f"{module}, line {node.lineno}: {ast.unparse(node)}"
        for module in MODULES
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Attribute)
        and node.attr in owners
        and module not in owners[node.attr]
        and ast.unparse(node.value) not in ("self", "cls", "super()")
        and ast.unparse(node) not in NO_SOURCES
    ]
    assert found == []


def test_class_names_are_unique() -> None:
    modules: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(module)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_no_circles() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in imports():
        if found.runs_on_import and found.target in MODULES and found.target != found.module:
            graph[found.module].add(found.target)
    while free := {module for module, targets in graph.items() if not targets}:
        graph = {module: targets - free for module, targets in graph.items() if module not in free}
    assert graph == {}, "these import each other, or something that does"


# ---- the pages about architecture

needs_pages = pytest.mark.skipif(
    not PAGES.exists(), reason="reads the pages of a checkout, and these tests are outside"
)


@needs_pages
def test_the_page_has_the_layers() -> None:
    drawn = re.findall(r"^    .*(?:\n    .*)*", (PAGES / "index.md").read_text("utf-8"), re.MULTILINE)[0]
    layers = [re.findall(r"\w+", layer) for layer in drawn.split("<")]
    rooms = LEVELS.keys() - {"__main__", "__init__"}
    assert rooms <= {room for layer in layers for room in layer}
    levels = [[LEVELS[room] for room in layer if room in LEVELS] for layer in layers]
    assert [len({*level}) for level in levels] == [1] * len(levels)
    assert levels == sorted(levels)
    assert len({level[0] for level in levels}) == len(levels)


@needs_pages
def test_the_page_has_a_row_for_each_room() -> None:
    rows = [row.split("|")[1] for row in (PAGES / "index.md").read_text("utf-8").splitlines() if row.startswith("| `")]
    described = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert LEVELS.keys() - {"__main__", "__init__"} <= described


NAMED = (ast.FunctionDef, ast.ClassDef)


def code_names() -> set[str]:
    """Return the functions of all modules as `module.function`, and all classes with their methods."""
    names = set()
    for module in MODULES:
        tree = parsed(module)
        scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [(module.rpartition(".")[2], tree)]
        scopes += [(node.name, node) for node in tree.body if isinstance(node, ast.ClassDef)]
        names |= {scope for scope, _ in scopes}
        names |= {f"{scope}.{child.name}" for scope, node in scopes for child in node.body if isinstance(child, NAMED)}
    return names


@needs_pages
def test_diagrams_name_only_existing_code() -> None:
    boxes = set()
    for page in PAGES.glob("*.md"):
        for diagram in re.findall(r"^```\{diagram\}.*\n((?:.*\n)*?)```$", page.read_text("utf-8"), re.MULTILINE):
            boxes |= {box for line in diagram.splitlines() for box in line.split(":")[0].split(" -> ")}
    named = {box for box in boxes if re.fullmatch(r"[A-Z]\w+|\w+\.\w+", box)} - {"source.read"}
    assert len(named) > 20
    assert named - code_names() == set()
