"""The wheel holds the package and nothing else; its version, license and extras are right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest

import dataformats
from dataformats.cli.doctor import EXTRAS, version
from tests.repository.test_packaging import CHECKOUT, modules, pyproject

pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "setup.py").exists(), reason="compares a checkout, and these tests stand outside one"
)

PAGE = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "dataformats/viewer/static").iterdir()}
STUBS = {"dataformats/__init__.pyi", "dataformats/internals.pyi", "dataformats/kernels/_native.pyi"}
DATA = {"dataformats/py.typed", *STUBS, *PAGE}
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "dataformats", "backends", "codecs", "loaders")


def project() -> dict[str, Any]:
    table: dict[str, Any] = pyproject()["project"]
    return table


@dataclass(frozen=True)
class Wheel:
    names: list[str]
    metadata: Message


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """A wheel without kernels, which need no look here, built from a copy that an earlier build left modules in."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    left_over = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build", "dist")
    for name in SOURCES:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, copy / name, symlinks=True, ignore=left_over)
        else:
            shutil.copy2(path, copy / name)
    for built in ("lib", f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"):
        stale = copy / "build" / built / "dataformats" / "deleted.py"
        stale.parent.mkdir(parents=True)
        stale.touch()
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    environment = {**os.environ, "CC": "/bin/false", "DATAFORMATS_REQUIRE_NATIVE": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        return Wheel(names, message_from_bytes(archive.read(metadata)))


def test_wheel_holds_the_package_and_nothing_else(wheel: Wheel) -> None:
    inside = {name for name in wheel.names if ".dist-info/" not in name}
    compiled = {name for name in inside if re.fullmatch(r"dataformats/kernels/_native\.[\w.-]+", name)} - DATA
    assert sorted(inside - compiled) == sorted({str(path) for path in modules()} | DATA)


def test_wheel_holds_the_license(wheel: Wheel) -> None:
    assert [name for name in wheel.names if name.endswith(".dist-info/licenses/LICENSE")]
    assert wheel.metadata["License-Expression"] == "Apache-2.0"


def test_wheel_has_the_version_of_the_package(wheel: Wheel) -> None:
    """The version stands in `dataformats/__init__.py` alone, and a checkout that is not installed knows it."""
    assert wheel.metadata["Version"] == dataformats.__version__
    assert "version" not in project()
    assert version() == dataformats.__version__


def test_extras_install_the_packages_of_the_commands(wheel: Wheel) -> None:
    extras: dict[str, list[str]] = {name: [] for name in wheel.metadata.get_all("Provides-Extra", [])}
    for requirement in wheel.metadata.get_all("Requires-Dist", []):
        named, _, condition = requirement.partition(";")
        if found := re.search(r"extra == [\"'](\w+)[\"']", condition):
            extras[found[1]].append(re.split(r"[ \[<>=!~]", named.strip())[0])
    assert extras.keys() == project()["optional-dependencies"].keys()
    assert {name: needed[0] for name, needed in extras.items() if name not in {"bench", "dev", "docs"}} == EXTRAS
