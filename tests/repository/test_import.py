"""`import dataformats` is fast and light: the test counts the imported modules, and does not measure time."""

from __future__ import annotations

import json
import subprocess
import sys

MOST = 60  # modules; most belong to `typing`, `enum` and `re`
HEAVY = ("numpy", "torch", "pyarrow", "PIL", "google.protobuf", "fsspec", "typer", "rich")
PROGRAM = """
import json, sys
before = set(sys.modules)
import dataformats
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported() -> list[str]:
    command = [sys.executable, "-I", "-c", PROGRAM]
    modules: list[str] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    return modules


def test_import_is_quick() -> None:
    assert len(imported()) < MOST


def test_import_is_light() -> None:
    modules = imported()
    assert "dataformats" in modules
    assert not [name for name in HEAVY if name in modules]
