"""`import dataformats` is fast and light: the test counts the imported modules, and does not measure time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats
from dataformats.kernels.wire import wire_kernels

MOST = 60  # modules; most belong to `typing`, `enum` and `re`
HEAVY = ("numpy", "torch", "pyarrow", "PIL", "google.protobuf", "fsspec", "click", "tqdm")
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
PACKING = """
import json, sys
import dataformats
batch = dataformats.packed(dataformats.open(sys.argv[1]), "tokens", length=8).read([0])
print(json.dumps([name for name in sys.argv[2:] if name in sys.modules]))
"""
RARE = ("dataformats.staging.remote_area", "dataformats.reading.blob_reader", "dataformats.backends.granular")


def imported() -> list[str]:
    command = [sys.executable, "-I", "-c", PROGRAM]
    modules: list[str] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=240).stdout)
    return modules


def test_import_is_quick() -> None:
    assert len(imported()) < MOST


def test_import_is_light() -> None:
    modules = imported()
    assert "dataformats" in modules
    assert not [name for name in HEAVY if name in modules]


def test_writer_of_a_local_file_imports_no_rare_module(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, str(tmp_path / "x.tfrecord"), *RARE]
    assert json.loads(subprocess.run(command, check=True, capture_output=True, timeout=240).stdout) == []


@pytest.mark.skipif(wire_kernels() is None, reason="without kernels, protobuf parses")
def test_reader_of_examples_imports_no_protobuf(tmp_path: Path) -> None:
    """The imports would take longer than all else that the first batch of a process does."""
    with dataformats.create(tmp_path / "x.tfrecord", spec={"tokens": "int64[]"}) as writer:
        writer.extend({"tokens": [1, 2, 3]} for _ in range(9))
    command = [sys.executable, "-c", PACKING, str(tmp_path / "x.tfrecord"), "google.protobuf", "numpy.ma"]
    assert json.loads(subprocess.run(command, check=True, capture_output=True, timeout=240).stdout) == []
