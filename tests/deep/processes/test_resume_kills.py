"""A few trials of killed ranks that resume on other ranks; `python -m tests.deep.processes.resume_kills` has more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("options", [[], ["--skip-lists"], ["--disk-caches"]], ids=["all", "skip_lists", "disk_caches"])
def test_killed_ranks_resume_exactly(options: list[str]) -> None:
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    # Ranks are forked: a process in which a fork server runs, as this one may be, leaves them none.
    command = [sys.executable, "-m", "tests.deep.processes.resume_kills", "--trials", "6", *options]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", done.stdout)}
    assert counts["trials"] == 6
    assert counts["kills"] >= 6
    assert (counts["lists"] >= 6) == (options == ["--skip-lists"])
    assert (counts["caches"] > 0) == (options == ["--disk-caches"])
    names = ("missing", "repeated", "displaced", "unskipped", "overfull", "wrong")
    assert [counts[name] for name in names] == [0] * len(names)
