"""Names that source files use and a drop-in module lacks: `python -m dataformats_compat.check FILE...`.

The files are parsed, not run. Attributes of values, such as a method of a tensor, are not checked; the methods of
`tf.data.Dataset` are.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dataformats_compat.tensorflow.missing import REMEDIES, missing

__all__ = ["MissingName", "check", "main"]

_ORIGINALS = ("bags", "ffrecord", "granular", "syrah", "tensorflow", "tfrecord")


class MissingName(NamedTuple):
    """A name that a drop-in module lacks: its line, the name in the original, and what to do."""

    line: int
    name: str
    remedy: str


def check(source: str) -> list[MissingName]:
    r"""Return the missing names in the text of a file, by line.

    Raises:
        SyntaxError: It is not Python.

    Example:
        >>> from dataformats_compat.check import check
        >>> [(finding.line, finding.name) for finding in check("import tensorflow as tf\ntf.keras.Model()")]
        [(2, 'tensorflow.keras')]
    """
    tree = ast.parse(source)
    imports = list(_imports(tree))
    names = {variable: name for _, variable, name in imports if variable}
    used = {(line, name) for line, _, name in imports}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _name(node, names)):
            used.add((node.lineno, name))
    used |= {(line, f"tensorflow.data.Dataset.{method}") for line, method in _methods(tree, names)}
    return sorted({MissingName(line, *lacking) for line, name in used if (lacking := _lacking(name)) is not None})


def _imports(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield the line of an import, the variable that it assigns, and the name that is imported from an original."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                if first in _ORIGINALS:
                    yield node.lineno, alias.asname or "", alias.name
                    yield node.lineno, "" if alias.asname else first, first
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] in _ORIGINALS:
            for alias in node.names:
                name = f"{node.module}.{alias.name}".removesuffix(".*")
                yield node.lineno, alias.asname or alias.name, name


def _name(node: ast.AST, names: Mapping[str, str]) -> str:
    """Return the name of an original that an expression such as `tf.io.gfile` means, or `""`."""
    if isinstance(node, ast.Attribute):
        owner = _name(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def _methods(tree: ast.AST, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the missing methods that are called on a dataset: the result of another, or a variable assigned from it."""
    variables: set[str] = set()
    for _ in range(2):  # a variable may be used above the line that assigns it
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _is_dataset(node.value, variables, names):
                variables.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or f"data.Dataset.{node.attr}" not in REMEDIES:
            continue  # a variable that is a dataset in one function may be a list in another
        if _is_dataset(node.value, variables, names):
            yield node.lineno, node.attr


def _is_dataset(node: ast.AST, variables: Set[str], names: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in variables
    if not isinstance(node, ast.Call):
        return False
    name = _name(node.func, names)
    if name:
        return name.startswith("tensorflow.") and (".data.Dataset." in name or name.endswith("Dataset"))
    chained = isinstance(node.func, ast.Attribute) and node.func.attr not in _ENDS
    return chained and _is_dataset(node.func.value, variables, names)  # type: ignore[attr-defined]  # an Attribute


_ENDS = frozenset(("make_one_shot_iterator", "as_numpy_iterator", "reduce", "cardinality", "apply", "options"))
"""Methods of a dataset that return something else, or may."""


def _lacking(name: str) -> tuple[str, str] | None:
    """Return the first part of a name that is missing, and the remedy; `None` if all are there."""
    done, *parts = name.split(".")
    owner: Any = importlib.import_module(f"dataformats_compat.{done}")
    for part in parts:
        done = f"{done}.{part}"
        if not hasattr(owner, part):
            try:
                importlib.import_module(f"dataformats_compat.{done}")
            except ImportError:
                return done, _remedy(owner, done)
        owner = getattr(owner, part)
        if not isinstance(owner, ModuleType | type) and not hasattr(owner, "__getattr__"):
            return None  # the attributes of values are not checked
    return None


def _remedy(owner: Any, name: str) -> str:
    original, _, rest = name.partition(".")
    if original == "tensorflow":
        return str(missing(rest.removeprefix("compat.v1.").removeprefix("compat.v2."))).partition("TFRecords. ")[2]
    near = difflib.get_close_matches(rest.rpartition(".")[2], dir(owner), 1)
    return f"The nearest name is {near[0]}." if near else f"Import {original} beside the drop-in module for it."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the missing names of files; return 1 if there is one, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m dataformats_compat.check", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    n = 0
    for path in parser.parse_args(arguments).files:
        try:
            findings = check(path.read_text())
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(f"{path}: cannot read it: {error}")
            findings, n = [], n + 1
        for line, name, remedy in findings:
            print(f"{path}:{line}: {name} is missing. {remedy}")
        n += len(findings)
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
