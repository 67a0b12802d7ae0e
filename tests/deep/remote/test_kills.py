"""A few cases of `python -m tests.deep.remote.kills`, by a seed that DATAFORMATS_FAULT_SEED changes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.deep.remote import s3_server

pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = [
    pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not())),
    pytest.mark.skipif(sys.platform != "linux", reason="programs are forks that are waited for by descriptors"),
]


# One case of each name. Files and shards, formats, and resumes take turns: the campaign has all their combinations.
CASES = {
    ("--kills", "6"): "create/syrah/file,create-resume/granular,create-after-other/tfrecord/shards,"
    "replace/tfrecord/shards,append/ofrecord,append-resume/tfrecord",
    ("--kills", "4"): "convert-pool/ffrecord,convert-parts/ffrecord,merge/tfrecord/shards,repair/tfrecord/file",
    ("--failures", "3"): "close-twice/granular,append/tfrecord,replace/tfrecord/file",
}


@pytest.mark.parametrize("cases", CASES, ids=" ".join)
def test_promises_hold(cases: tuple[str, str]) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seed = os.environ.get("DATAFORMATS_FAULT_SEED", "0")
    command = [sys.executable, "-m", "tests.deep.remote.kills", *cases, "--only", CASES[cases], "--seed", seed]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
