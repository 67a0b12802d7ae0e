"""The drop-in `tfrecord` beside the package, in a process of its own, because the package excludes TensorFlow."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("beside_tfrecord.py")
NEEDED = ("tfrecord", "torch")  # only child processes import them


@pytest.mark.skipif(not all(map(importlib.util.find_spec, NEEDED)), reason="needs tfrecord and torch")
def test_both_agree(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
