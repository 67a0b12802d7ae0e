"""Type checkers see the type of every public name in programs that use this package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dataformats


def test_public_types_are_complete(tmp_path: Path) -> None:
    """Types of other packages are left out: numpy's own stubs leave some unknown."""
    site = tmp_path / "site"
    shutil.copytree(Path(dataformats.__file__).parent, site / "dataformats", ignore=shutil.ignore_patterns("*.so"))
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(site),
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "dataformats"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)["typeCompleteness"]
    incomplete = [symbol["name"] for symbol in report["symbols"] if not symbol["isTypeKnown"]]
    assert report["pyTypedPath"] == str(site / "dataformats" / "py.typed")
    assert report["completenessScore"] > 0.99, incomplete
