"""The benchmark harness, on a few records and with the peers that are installed.

It runs as a program, as `make bench` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
TINY = ("--quick", "--scale", "0.001", "--rounds", "1", "--sizes", "500", "1000")
UNEQUAL = """
import pathlib
from tests.benchmarks.harness import Case, Data, Side, Target, Work, measure

right = Side(lambda: iter([1, 2]), lambda batch: {"value": batch})
wrong = Side(lambda: iter(%s), lambda batch: {"value": batch})
work = Work("a list", {"dataformats": lambda: right, "another": lambda: wrong})
measure(Case("a", lambda data: work, (Target("another"),)), Data(pathlib.Path("unused")), rounds=1)
"""


def run(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.benchmarks", "--data", str(data), *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False)


def run_code(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )


def test_benchmark_refuses_sides_with_different_values() -> None:
    assert run_code(UNEQUAL % "[1, 2]").returncode == 0
    assert "step 1: dataformats and another differ in value" in run_code(UNEQUAL % "[1, 3]").stderr
    assert "differ in the number of steps" in run_code(UNEQUAL % "[1]").stderr


def test_it_says_which_case_it_does_not_know(tmp_path: Path) -> None:
    done = run("-k", "no such case", data=tmp_path)
    assert done.returncode != 0
    assert "--list" in done.stderr
    assert os.listdir(tmp_path) == []
