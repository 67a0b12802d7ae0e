"""`install`: the original's name gives the drop-in module and its submodules, and never a second copy of them."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType

import pytest

import dataformats_compat
import dataformats_compat.granular
import dataformats_compat.granular.loader
import dataformats_compat.ofrecord


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match=r"no drop-in module for 'numpy': expected one of .*granular"):
        dataformats_compat.install("numpy")
    assert "numpy" not in dataformats_compat._Finder.installed
    assert not any(isinstance(finder, dataformats_compat._Finder) for finder in sys.meta_path)


@pytest.mark.usefixtures("without_originals")
def test_submodules_are_the_same_objects() -> None:
    ours = dataformats_compat.granular
    own_specs = {name: importlib.import_module(f"{ours.__name__}.{name}").__spec__ for name in ("loader", "sources")}
    assert dataformats_compat.install("granular") is ours
    granular = importlib.import_module("granular")
    loader = importlib.import_module("granular.loader")
    assert granular is ours
    assert loader is granular.loader is dataformats_compat.granular.loader
    found: dict[str, object] = {}
    exec("import granular.bag\nfrom granular import Loader, sources\nfrom granular.loader import SharedArray", found)
    assert found["granular"] is ours
    assert found["sources"] is ours.sources
    assert (found["Loader"], found["SharedArray"]) == (loader.Loader, loader.SharedArray)
    for name, spec in own_specs.items():
        assert importlib.import_module(f"granular.{name}").__spec__ is spec
    with pytest.raises(ModuleNotFoundError, match=r"granular\.no_such_module"):
        importlib.import_module("granular.no_such_module")


@pytest.mark.usefixtures("without_originals")
def test_twice_is_once() -> None:
    finders = len(sys.meta_path)
    assert dataformats_compat.install("granular") is dataformats_compat.install("granular")
    assert len(sys.meta_path) == finders + 1


@pytest.mark.usefixtures("without_originals")
def test_after_the_original_is_too_late() -> None:
    sys.modules["granular"] = original = ModuleType("granular")
    with pytest.raises(RuntimeError, match="granular was imported before"):
        dataformats_compat.install("granular")
    assert sys.modules["granular"] is original
    assert not dataformats_compat._Finder.installed


@pytest.mark.usefixtures("without_originals")
def test_pickles_load_where_nothing_is_installed() -> None:
    dataformats_compat.install("granular")
    sources = importlib.import_module("granular.sources")
    pickled = pickle.dumps(sources.Epochs("abc"))
    assert b"dataformats_compat.granular.sources" in pickled
    assert type(pickle.loads(pickled)) is dataformats_compat.granular.sources.Epochs
