"""Settings of the tests of drop-in modules; conftest.py of the checkout has the rest."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator

import pytest

import dataformats_compat


@pytest.fixture
def without_originals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide imported originals, so that `install` can take their names; afterwards all is as it was before."""
    names = [module.name for module in pkgutil.iter_modules(dataformats_compat.__path__)]
    originals = {dataformats_compat._ORIGINALS.get(name, name).partition(".")[0] for name in names}

    def imported() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in originals]

    for name in imported():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(dataformats_compat._Finder, "installed", set())
    yield
    for name in imported():
        del sys.modules[name]
