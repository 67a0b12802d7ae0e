"""A few trials of killed ranks that resume on other ranks; `python -m tests.deep.processes.resume_kills` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deep.processes.resume_kills import Tally, places, trial
from tests.deep.remote.servers import S3Folder


def test_killed_ranks_resume_exactly(tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    server, tally = S3Folder(tmp_path), Tally()
    try:
        choices = places(tmp_path, server)
        for seed in range(12):
            trial(seed, choices, tmp_path, tally)
    finally:
        server.close()
    assert tally.failed == []
    assert (tally.trials, tally.missing, tally.repeated, tally.displaced, tally.wrong) == (12, 0, 0, 0, 0)
    assert tally.kills >= 12
