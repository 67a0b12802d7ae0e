"""pyproject.toml, the folders and docs/install.md agree: packages, links, extras."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
LINKS = {"dataformats/backends": "../backends", "dataformats/codecs": "../codecs", "dataformats/loaders": "../loaders"}
# With lower bounds that no test installs: of tools, and of extras that are large or that the fast tests do not use.
NOT_TESTED = {
    *("aiohttp", "array_record", "h5py", "lmdb", "obstore", "pylance", "zarr"),
    *(
        "furo",
        "gcsfs",
        "granular",
        "mypy",
        "matplotlib",
        "myst-nb",
        "obstore",
        "pytest-cov",
        "ray",
        "ruff",
        "s3fs",
        "setuptools",
        "sphinx",
        "sphinx-copybutton",
        "sphinx-design",
    ),
    *("torch", "torchdata"),
}

pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "setup.py").exists(), reason="compares a checkout, and these tests stand outside one"
)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))


def settings() -> dict[str, Any]:
    table: dict[str, Any] = pyproject()["tool"]["setuptools"]
    return table


def walk(folder: Path, follow: bool) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Like `os.walk`, without build outputs, environments and caches of tools."""
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


def test_page_lists_the_extras() -> None:
    _, _, table = (CHECKOUT / "docs" / "install.md").read_text("utf-8").partition("| extra |")
    rows = itertools.takewhile(lambda line: line.startswith("|"), table.splitlines()[1:])
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(pyproject()["project"]["optional-dependencies"])


def test_lower_bounds_are_tested() -> None:
    """`make test-lowest` installs the lower bound of every dependency, and of the extras that its tests need."""

    def bounds(lines: list[str], operator: str) -> set[tuple[str, str]]:
        found = (re.match(rf"([\w-]+)(?:\[\w+\])?{operator}([\w.]+)", line) for line in lines)
        return {(bound[1], re.sub(r"(\.0)+$", "", bound[2])) for bound in found if bound is not None}

    project = pyproject()["project"]
    tested = bounds((CHECKOUT / "tests" / "deep" / "packaging" / "lowest.txt").read_text("utf-8").splitlines(), "==")
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    stated = bounds([*project["dependencies"], *extras], ">=")
    assert len(bounds(project["dependencies"], ">=") & tested) == len(project["dependencies"])
    assert {name for name, _ in stated - tested} == NOT_TESTED
