"""Conversions behind a URL that fail or are killed at each step, and resume."""

from __future__ import annotations

from typing import Any

import pytest

import dataformats
from tests.converting import test_remote as fast
from tests.converting.test_remote import N
from tests.writing.failing_memory import Killed, Remote

remote, source = fast.remote, fast.source  # fixtures


@pytest.mark.parametrize("old", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("stays", [True, False], ids=["kill", "error"])
def test_faults_at_each_step(
    source: dataformats.RecordSource, old: bool, stays: bool, remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    """Each interruption leaves the old data or an error; then the conversion resumes."""
    options: dict[str, Any] = {"format": "tfrecord", "shard_records": 9}
    at, url = 0, ""
    for at in range(40):
        url = f"memory://{at}/new"
        if old:
            dataformats.convert(source, url, "tfrecord", shard_records=20, limit=20)
        remote.fail(at, stays=stays)
        try:
            dataformats.convert(source, url, overwrite=old, **options)
        except (Killed, OSError):
            remote.at = -1
            assert (before := found(url)) in ("old" if old else "error", "error", "new")
        else:
            break
        dataformats.convert(source, url, overwrite=old, resume=True, **options)
        assert found(url) == "new"
        assert before == "new" or not caplog.text  # no shard was converted again
        caplog.clear()
        assert ".partial" not in "".join(remote.memory.find(f"/{at}"))
    assert at > 10
    assert found(url) == "new"


def found(url: str) -> str:
    try:
        found = [record["n"] for record in dataformats.open(url)]
    except (OSError, dataformats.FormatError):
        return "error"
    assert found in (list(range(20)), list(range(N)))
    return "new" if len(found) == N else "old"
