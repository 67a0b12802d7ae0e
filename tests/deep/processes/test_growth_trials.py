"""A few trials of runs whose data grow; `python -m tests.deep.processes.growth_trials` has more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("options", [["--trials", "25"], ["--trials", "6", "--kills"]], ids=["dropped", "killed"])
def test_growing_runs_resume_exactly(options: list[str]) -> None:
    command = [sys.executable, "-m", "tests.deep.processes.growth_trials", *options]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", done.stdout)}
    assert counts["trials"] == int(options[1])
    assert counts["growths"] > counts["now"] > 0
    assert [counts[name] for name in ("missing", "repeated", "displaced")] == [0, 0, 0]
