"""The example of Flax on several processes: three of them end the epoch that two began, and each record comes once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "train_jax.py"

pytestmark = [
    pytest.mark.skipif(not EXAMPLE.exists(), reason="runs an example of a checkout, and these tests stand outside one"),
    pytest.mark.skipif(importlib.util.find_spec("flax") is None, reason="flax is not installed: make .venv/deep"),
    pytest.mark.timeout(600),  # the programs import large libraries
]


def test_other_processes_resume_the_epoch(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "checkpoint")]
    for options in (["--steps", "12"], ["--processes", "3"]):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=290, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.count("resumes at position 720") == 3
    assert "each record came once: True" in done.stdout
