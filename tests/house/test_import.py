"""`import dataformats` is quick and light: DESIGN, Dependencies."""

from __future__ import annotations

import json
import subprocess
import sys

LIMIT_S = 0.15
RUNS = 5
HEAVY = ("torch", "pyarrow", "PIL", "google.protobuf", "fsspec", "typer", "rich")
PROGRAM = """
import json, sys, time
begin = time.perf_counter()
import dataformats
print(json.dumps([time.perf_counter() - begin, sorted(sys.modules)]))
"""


def import_once() -> tuple[float, list[str]]:
    command = [sys.executable, "-I", "-c", PROGRAM]
    seconds, modules = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    return seconds, modules


def test_import_is_quick() -> None:
    times_s = [import_once()[0] for _ in range(RUNS)]
    assert min(times_s) < LIMIT_S, f"import dataformats took {min(times_s):.3f} s at best of {RUNS}"


def test_import_is_light() -> None:
    _, modules = import_once()
    assert "dataformats" in modules
    assert not [name for name in HEAVY if name in modules]
