"""compat/pyproject.toml agrees with the package `dataformats` and with the folders."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import dataformats

COMPAT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(
    not (COMPAT / "pyproject.toml").exists(), reason="compares a checkout, and these tests stand outside one"
)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((COMPAT / "pyproject.toml").read_text("utf-8"))


def test_both_distributions_have_one_version() -> None:
    project = pyproject()["project"]
    assert project["version"] == dataformats.__version__
    assert project["dependencies"] == [f"dataformats=={dataformats.__version__}"]


def test_listed_packages_are_the_folders() -> None:
    files = (COMPAT / "dataformats_compat").rglob("*.py")
    folders = {".".join(path.relative_to(COMPAT).parent.parts) for path in files}
    assert sorted(pyproject()["tool"]["setuptools"]["packages"]) == sorted(folders)
    assert all((COMPAT / folder.replace(".", "/") / "__init__.py").exists() for folder in folders)


def test_both_distributions_have_one_license() -> None:
    assert (COMPAT / "LICENSE").read_bytes() == (COMPAT.parent / "LICENSE").read_bytes()
