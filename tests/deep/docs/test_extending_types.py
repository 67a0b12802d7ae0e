"""The examples of docs/extending.md pass `mypy --strict`, with no options of this project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
PAGE = CHECKOUT / "docs" / "extending.md"
EXAMPLES = CHECKOUT / "examples"
PACKAGES = sorted(EXAMPLES.glob("dataformats_*"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="reads the pages of a checkout, and these tests are outside")


def mypy(folder: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--explicit-package-bases"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={folder / 'cache'}", *map(str, files)],
        cwd=folder,
        env=os.environ | {"MYPYPATH": os.pathsep.join(map(str, (CHECKOUT, EXAMPLES, *PACKAGES)))},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_examples_pass_strict_type_checks(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) >= 4
    program = tmp_path / "extending.py"
    program.write_text("\n".join(blocks), "utf-8")
    modules = [module for package in PACKAGES for module in package.rglob("*.py")]
    assert len(modules) == 4
    done = mypy(tmp_path, program, EXAMPLES / "length_prefixed.py", EXAMPLES / "bits_codec.py", *modules)
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text("\n".join(blocks) + "wrong: str = len(squares)\n", "utf-8")
    assert "error: Incompatible types in assignment" in mypy(tmp_path, program).stdout
