"""A few trials of killed ranks that resume on other ranks; `python -m tests.deep.processes.resume_kills` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deep.processes.resume_kills import Tally, places, trial
from tests.deep.remote.servers import S3Folder


@pytest.mark.parametrize("has_lists", [False, True], ids=["all", "skip_lists"])
def test_killed_ranks_resume_exactly(tmp_path: Path, has_lists: bool) -> None:
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    server, tally = S3Folder(tmp_path), Tally()
    try:
        choices = places(tmp_path, server)
        for seed in range(12):
            trial(seed, choices, tmp_path, tally, has_lists=has_lists)
    finally:
        server.close()
    assert tally.failed == []
    assert (tally.trials, tally.missing, tally.repeated, tally.displaced, tally.wrong) == (12, 0, 0, 0, 0)
    assert tally.unskipped == 0
    assert (tally.lists >= 12) == has_lists
    assert tally.kills >= 12
