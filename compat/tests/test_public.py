"""Modules and public names have docstrings, and their examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import types
import warnings
from pathlib import Path

import pytest

import dataformats_compat
from tests.cases import GOLDEN

PACKAGE = Path(dataformats_compat.__path__[0])
FOUND = pkgutil.walk_packages(dataformats_compat.__path__, "dataformats_compat.")
MODULES = ["dataformats_compat", *(module.name for module in FOUND)]


def has_examples(name: str) -> bool:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return b">>> " in path.read_bytes()


def test_modules_and_public_names_have_docstrings() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        assert module.__doc__, f"{name} has no docstring"
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if isinstance(thing, type | types.FunctionType):
                assert inspect.getdoc(thing), f"{name}.{public} has no docstring"


@pytest.mark.usefixtures("without_originals")
@pytest.mark.parametrize("name", [name for name in MODULES if has_examples(name)])
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Examples read tests/golden of the checkout."""
    monkeypatch.chdir(GOLDEN.parents[1])
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        failed, _ = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert failed == 0
    importlib.invalidate_caches()
