"""Drop-in modules import public names of the core, the semi-public ones of `dataformats.internals`, and no others."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataformats.internals
import dataformats_compat

PACKAGE = Path(dataformats_compat.__path__[0])
API = Path(__file__).parents[2] / "docs" / "api"
SEAM = "dataformats.internals"
STUB = Path(dataformats.internals.__file__).with_suffix(".pyi")


def imports() -> Iterator[tuple[str, str, str]]:
    """Yield each file that imports a name of the core, the module, and the name, or `""` for a whole module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                found = [(str(node.module), alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                found = [(alias.name, "") for alias in node.names]
            else:
                continue
            file = path.relative_to(PACKAGE).as_posix()
            yield from ((file, module, name) for module, name in found if module.split(".")[0] == "dataformats")


IMPORTS = sorted(imports())


@pytest.mark.skipif(not API.exists(), reason="reads the pages of a checkout, and these tests are outside")
def test_imported_names_are_public_or_semi_public() -> None:
    text = "\n".join(page.read_text("utf-8") for page in API.glob("*.md"))
    named = re.findall(r"^\.\. auto(?:class|function|data|exception):: ([\w.]+)", text, re.MULTILINE)
    modules = {name.rpartition(".")[0] for name in named if not name.startswith("dataformats_compat")}
    assert {"dataformats", "dataformats.interfaces"} <= modules

    def is_public(module: str, name: str) -> bool:
        if f"{module}.{name}".rstrip(".") in modules:
            return True
        return module in modules and name in importlib.import_module(module).__all__

    assert [found for found in IMPORTS if found[1] != SEAM and not is_public(*found[1:])] == []


def test_semi_public_names_are_the_imported_ones() -> None:
    listed = [line.split()[-1] for line in STUB.read_text("utf-8").splitlines() if line.startswith("from ")]
    assert len(listed) == len({*listed})
    assert {*listed} == {name for _, module, name in IMPORTS if module == SEAM}
    assert all(hasattr(dataformats.internals, name) for name in listed)
    assert not hasattr(dataformats.internals, "no_such_name")


def test_private_attributes_are_of_drop_in_modules() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    attributes = [(path, node) for path, node in nodes if isinstance(node, ast.Attribute)]
    own = {node.name for _, node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.attr for _, node in attributes if ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store)
    }
    found = [
        f"{path.relative_to(PACKAGE)}, line {node.lineno}: {ast.unparse(node)}"
        for path, node in attributes
        if re.match(r"_(?!_)", node.attr)
        and node.attr not in own | {"_fields"}  # of a NamedTuple
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]
    assert found == []
