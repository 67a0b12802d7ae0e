"""The sdist holds every source file of the package and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

import pytest

CHECKOUT = Path(__file__).parents[3]
ROOMS = ("dataformats", "backends", "codecs", "loaders")
SOURCES = {".c", ".css", ".h", ".html", ".js", ".py", ".pyi", ".svg", ".typed"}
BESIDE = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}

pytestmark = pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="asks git for the files of the checkout")


def test_sdist_holds_every_source_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    sources = set()
    for name in tracked.stdout.split("\0"):
        source, path = CHECKOUT / name, PurePosixPath(name)
        if name and not source.is_symlink() and (path.parts[0] in ROOMS or name in BESIDE):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(source.read_bytes())
            sources |= {name} if path.parts[0] in ROOMS and path.suffix in SOURCES else set()
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in names if ".egg-info/" not in name} == sources | BESIDE
