"""The extensions in examples/, registered or installed for the tests of one module."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dataformats.registry import backends, codecs

EXAMPLES = Path(__file__).parents[1] / "examples"

needs_examples = pytest.mark.skipif(
    not EXAMPLES.exists(), reason="runs the examples of a checkout, and these tests stand outside one"
)


@contextmanager
def _own_registries(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Import from a folder, and forget afterwards which formats and codecs were found meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        for registry in (backends, codecs):
            patched.setattr(registry, "_objects", dict(registry._objects))
            patched.setattr(registry, "_registered", set(registry._registered))
            patched.setattr(registry, "_advertised", None)
        yield patched


def register_examples(*modules: str) -> Callable[[], Iterator[None]]:
    """Return a fixture that calls `register` of these modules, and forgets what they registered after the tests."""

    @pytest.fixture(scope="module", autouse=True)
    def registered() -> Iterator[None]:
        with _own_registries(EXAMPLES):
            for module in modules:
                importlib.import_module(module).register()
            yield

    return registered


def install_examples(*packages: str) -> Callable[[pytest.TempPathFactory], Iterator[Path]]:
    """Return a fixture that installs packages of examples/ in a new folder, which child processes import from, too."""

    @pytest.fixture(scope="module", autouse=True)
    def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        site = tmp_path_factory.mktemp("site")
        for package in packages:
            _install(EXAMPLES / package, site)
        with _own_registries(site) as patched:
            patched.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
            yield site

    return installed


def _install(package: Path, site: Path) -> None:
    """Copy a package, and write its metadata beside it as an installer does."""
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    shutil.copytree(package, site, dirs_exist_ok=True, ignore=shutil.ignore_patterns("pyproject.toml", "__pycache__"))
    about = site / f"{package.name}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (about / "entry_points.txt").write_text("".join(groups))


def load_example(module: str) -> Any:
    """Return a module of a package in examples/, without its entry point."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", [str(EXAMPLES / module), *sys.path])
        return importlib.import_module(module)
