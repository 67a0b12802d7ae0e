"""A few trials of runs that are killed and resumed on other ranks: the programs in this folder have more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


def counts_of(program: str, *options: str) -> dict[str, int]:
    """Return the numbers that a program prints; each must pass all its trials."""
    # Ranks are forked: a process in which a fork server runs, as this one may be, leaves them none.
    command = [sys.executable, "-m", f"tests.deep.processes.{program}", *options]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", done.stdout)}


@pytest.mark.parametrize("options", [[], ["--skip-lists"], ["--disk-caches"]], ids=["all", "skip_lists", "disk_caches"])
def test_killed_ranks_resume_exactly(options: list[str]) -> None:
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    counts = counts_of("resume_kills", "--trials", "6", *options)
    assert counts["trials"] == 6
    assert counts["kills"] >= 6
    assert (counts["lists"] >= 6) == (options == ["--skip-lists"])
    assert (counts["caches"] > 0) == (options == ["--disk-caches"])
    names = ("missing", "repeated", "displaced", "unskipped", "overfull", "wrong")
    assert [counts[name] for name in names] == [0] * len(names)


@pytest.mark.parametrize("options", [["--trials", "30"], ["--trials", "6", "--kills"]], ids=["together", "killed"])
def test_packed_rows_resume_exactly(options: list[str]) -> None:
    counts = counts_of("packed_trials", *options)
    assert counts["trials"] == int(options[1])
    assert counts["attempts"] >= 2 * counts["trials"]
    assert (counts["kills"] >= counts["trials"]) == ("--kills" in options)
    assert [counts[name] for name in ("missing", "repeated", "displaced", "wrong")] == [0] * 4


@pytest.mark.parametrize("options", [["--trials", "25"], ["--trials", "6", "--kills"]], ids=["dropped", "killed"])
def test_growing_runs_resume_exactly(options: list[str]) -> None:
    counts = counts_of("growth_trials", *options)
    assert counts["trials"] == int(options[1])
    assert counts["growths"] > counts["now"] > 0
    assert [counts[name] for name in ("missing", "repeated", "displaced")] == [0, 0, 0]
