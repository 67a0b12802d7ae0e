"""`install`: the original's name gives the drop-in module and its submodules, and never a second copy of them."""

from __future__ import annotations

import sys

import pytest

import dataformats.compat


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match="no drop-in module for 'numpy'"):
        dataformats.compat.install("numpy")
    assert "numpy" not in dataformats.compat._Finder.installed
    assert not any(isinstance(finder, dataformats.compat._Finder) for finder in sys.meta_path)
