"""The sdist and the wheel of `dataformats-compat` hold the package and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import dataformats

COMPAT = Path(__file__).parents[2]
BESIDE = {"LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}

pytestmark = pytest.mark.skipif(
    not (COMPAT / "pyproject.toml").exists(), reason="builds a checkout, and these tests stand outside one"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and a wheel that was built from it."""
    copy, out = tmp_path_factory.mktemp("checkout") / "compat", tmp_path_factory.mktemp("dist")
    shutil.copytree(COMPAT, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def sources() -> set[str]:
    package = COMPAT / "dataformats_compat"
    paths = [path for path in package.rglob("*") if path.suffix in (".py", ".typed")]
    return {path.relative_to(COMPAT).as_posix() for path in paths}


def test_sdist_holds_every_source_and_nothing_else(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in names if ".egg-info/" not in name} == sources() | BESIDE


def test_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (message_from_bytes(archive.read(name)) for name in names if name.endswith("/METADATA"))
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert metadata["Version"] == dataformats.__version__
    needed = [re.sub(r"\s", "", one) for one in metadata.get_all("Requires-Dist", []) if "extra" not in one]
    assert needed == [f"dataformats=={dataformats.__version__}"]
