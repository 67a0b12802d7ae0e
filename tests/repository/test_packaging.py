"""What is listed, what stands in the folders and what the wheel holds are the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
LINKS = {"dataformats/backends": "../backends", "dataformats/codecs": "../codecs", "dataformats/loaders": "../loaders"}
DATA = {"dataformats/py.typed", "dataformats/kernels/_native.pyi"}
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "dataformats", "backends", "codecs", "loaders")

pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "setup.py").exists(), reason="compares a checkout, and these tests stand outside one"
)


def settings() -> dict[str, Any]:
    pyproject = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
    found: dict[str, Any] = pyproject["tool"]["setuptools"]
    return found


def walk(folder: Path, follow: bool) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As os.walk, without what is built, installed or kept by tools."""
    for place, folders, files in os.walk(folder, followlinks=follow):
        hidden = [name for name in folders if name.startswith(".") or name.endswith(".egg-info")]
        for name in {*hidden, "__pycache__", "build", "dist"} & {*folders}:
            folders.remove(name)
        yield Path(place), folders, files


def modules() -> set[PurePosixPath]:
    """Every Python file of the package, as the path it is imported by."""
    found = set()
    for place, _, files in walk(CHECKOUT / "dataformats", follow=True):
        relative = PurePosixPath(place.relative_to(CHECKOUT).as_posix())
        found |= {relative / name for name in files if name.endswith(".py")}
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in a wheel, built from a copy: nothing is left behind here, and nothing stale gets in."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    stale = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build", "dist")
    for name in SOURCES:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, copy / name, symlinks=True, ignore=stale)
        elif path.exists():
            shutil.copy2(path, copy / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_listed_packages_are_the_folders() -> None:
    folders = {".".join(path.parent.parts) for path in modules()}
    assert sorted(settings()["packages"]) == sorted(folders)


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in modules()}
    assert {folder / "__init__.py" for folder in folders} <= modules()


def test_links_are_the_wings_and_nothing_else() -> None:
    found = {}
    for place, folders, files in walk(CHECKOUT, follow=False):
        for path in (place / name for name in [*folders, *files]):
            if path.is_symlink():
                found[path.relative_to(CHECKOUT).as_posix()] = str(path.readlink())
    assert found == LINKS


def test_links_are_mapped() -> None:
    expected = {path.replace("/", "."): target.removeprefix("../") for path, target in LINKS.items()}
    assert settings()["package-dir"] == expected


def test_wheel_holds_the_package_and_nothing_else(wheel: list[str]) -> None:
    inside = {name for name in wheel if ".dist-info/" not in name}
    compiled = {name for name in inside if re.fullmatch(r"dataformats/kernels/_native\.[\w.-]+", name)} - DATA
    assert sorted(inside - compiled) == sorted({str(path) for path in modules()} | DATA)
    assert len(compiled) <= 1


def test_wheel_holds_the_licence(wheel: list[str]) -> None:
    assert [name for name in wheel if name.endswith(".dist-info/licenses/LICENSE")]
