"""The README runs as written: its blocks, in order, in a folder like a fresh checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deep.docs.test_docs import DOCS, matches

TESTS = Path(__file__).parents[2]
README = TESTS.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    not README.exists(), reason="runs the README of a checkout, and these tests stand outside one"
)


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks() -> list[Block]:
    return [Block(*match) for match in BLOCK.findall(README.read_text("utf-8"))]


def run(command: list[str], folder: Path) -> str:
    """Return what a command prints; it may print no warning."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def program(folder: Path) -> str:
    """Make a folder with the `dataformats` of this interpreter; return a PATH that begins with it."""
    script = folder / "dataformats"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dataformats "$@"\n')
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_blocks_of_readme_print_their_stated_output(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("real", "tfrecord"):
        shutil.copytree(TESTS / "golden" / name, folder / "tests" / "golden" / name)
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("PATH", program(tmp_path_factory.mktemp("bin")))
    printed = ""
    for block in blocks():
        if block.language == "python":
            output = run([sys.executable, "-c", block.text], folder)
            assert output.splitlines() == PRINTED.findall(block.text)
        elif block.language == "sh":
            printed = run(["sh", "-euc", block.text], folder)
        else:
            assert block.language == "text"
            assert matches(printed, block.text), printed


def test_there_are_blocks_of_each_kind() -> None:
    assert {block.language for block in blocks()} == {"python", "sh", "text"}


def test_checkouts_are_installed_in_place() -> None:
    """Python in a checkout imports the package there, whose kernels are compiled only by `pip install -e`."""
    found = {
        page: re.findall(r"pip install(?: -e)? '?\.", page.read_text("utf-8")) for page in [README, *DOCS.rglob("*.md")]
    }
    installs = {page.name: command for page, commands in found.items() for command in commands}
    assert {"README.md", "install.md"} <= installs.keys()
    assert {command.rstrip(".'") for command in installs.values()} == {"pip install -e "}


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8"))
    assert targets
    assert [target for target in targets if not (README.parent / target).exists()] == []
