"""Public names: each exists, has a docstring, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import subprocess
import sys
import types
import warnings
from functools import cache
from pathlib import Path

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.repository.test_doc_pages import DOCS, REFERENCE, named

TESTS = Path(__file__).parents[1]
ROOMS = ["", *(module.name for module in pkgutil.iter_modules(dataformats.__path__))]
# The tests may lack them.
PACKAGES = {"duckdb": "duckdb", "grain": "grain", "huggingface": "datasets", "polars": "polars", "ray": "ray"}
EXTRAS = {f"dataformats.interop.{name}": package for name, package in PACKAGES.items()}
PUBLIC: list[str] = importlib.import_module("dataformats").__all__  # type checkers see the stub, without `__all__`


@cache
def modules() -> list[str]:
    found = (module.name for module in pkgutil.walk_packages(dataformats.__path__, "dataformats."))
    importable = (name for name in found if name not in EXTRAS or importlib.util.find_spec(EXTRAS[name]))
    return ["dataformats", *sorted(name for name in importable if not name.endswith("__main__"))]


def has_examples(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    return b">>> " in Path(str(spec.origin)).read_bytes()


def examples_of(thing: object) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


@loop_over("name", PUBLIC)
def test_public_names(name: str) -> None:
    thing = getattr(dataformats, name)
    assert inspect.getdoc(thing), f"dataformats.{name} has no docstring"
    assert name in dir(dataformats)
    assert examples_of(thing), f"dataformats.{name} has no example"


def test_unknown_name_raises() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(dataformats, "no_such_" + "name")


def test_star_imports_public_names() -> None:
    names: dict[str, object] = {}
    exec("from dataformats import *", names)
    assert names.keys() - {"__builtins__"} == {*PUBLIC}


def test_modules_and_public_names_have_docstrings() -> None:
    for name in modules():
        module = importlib.import_module(name)
        assert module.__doc__, f"{name} has no docstring"
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if isinstance(thing, type | types.FunctionType):
                assert inspect.getdoc(thing), f"{name}.{public} has no docstring"


@pytest.mark.skipif(not DOCS.exists(), reason="reads the pages of a checkout, and these tests are outside")
def test_only_modules_of_the_reference_have_public_names() -> None:
    """`__all__` stands in the modules that the API reference names, and lists what the reference has."""
    names = {*modules()}
    lists = {name: getattr(importlib.import_module(name), "__all__", None) for name in sorted(names)}
    listing = {name for name, listed in lists.items() if listed is not None}
    assert listing == names & {path.rpartition(".")[0] for path in REFERENCE}
    documented = {id(named(path)) for path in REFERENCE}
    paths = [f"{module}.{name}" for module, listed in lists.items() for name in listed or ()]
    assert [path for path in paths if id(named(path)) not in documented] == []


@pytest.mark.parametrize("room", ROOMS)
def test_examples_run(room: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Examples read tests/golden, so they run where `tests` lies: also beside an installed package."""
    monkeypatch.chdir(TESTS.parent)
    failed = []
    for name in modules():
        if "".join(name.split(".")[1:2]) == room and has_examples(name):
            folder = tmp_path / name
            folder.mkdir()
            monkeypatch.setenv("DATAFORMATS_CACHE", str(folder))
            monkeypatch.setenv("TMPDIR", str(folder))
            module = importlib.import_module(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                done = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
            if done.failed:
                failed.append(name)
            importlib.invalidate_caches()
    assert failed == []  # the captured output has the differences


def test_one_module_does_not_import_all() -> None:
    program = "import sys, dataformats; dataformats.Spec; print(sorted(m for m in sys.modules if 'dataformats' in m))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert "dataformats.reading.opening" not in done.stdout
    assert "dataformats.testing" not in done.stdout
