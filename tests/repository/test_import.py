"""`import dataformats` is fast and light: the test counts the imported modules, and does not measure time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 60  # modules; most belong to `typing`, `enum` and `re`
HEAVY = ("numpy", "torch", "pyarrow", "PIL", "google.protobuf", "fsspec", "typer", "rich")
PROGRAM = """
import json, sys
before = set(sys.modules)
import dataformats
print(json.dumps(sorted(set(sys.modules) - before)))
"""
WRITING = """
import json, sys
import dataformats
with dataformats.create(sys.argv[1], "tfrecord") as writer:
    writer.append(b"one")
print(json.dumps([name for name in sys.argv[2:] if name in sys.modules]))
"""
RARE = ("dataformats.staging.remote_area", "dataformats.reading.blob_reader", "dataformats.backends.granular")


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


def test_writer_of_a_local_file_imports_no_rare_module(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, str(tmp_path / "x.tfrecord"), *RARE]
    assert json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout) == []
