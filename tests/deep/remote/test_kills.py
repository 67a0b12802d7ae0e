"""A few cases of `python -m tests.deep.remote.kills`, by the seed of `tests.campaign`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.campaign import SEED, chosen
from tests.deep.remote import s3_server

pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = [
    pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not())),
    pytest.mark.skipif(sys.platform != "linux", reason="programs are forks that are waited for by descriptors"),
]


# One case of each name. Files and shards, formats, and resumes take turns: the campaign has all their combinations.
CASES = {
    "kills": "create/syrah/file,create-resume/granular,create-after-other/tfrecord/shards,"
    "replace/tfrecord/shards,append/ofrecord,append-resume/tfrecord",
    "kills of conversions": "convert-pool/ffrecord,convert-parts/ffrecord,merge/tfrecord/shards,repair/tfrecord/file",
    "failures": "close-twice/granular,append/tfrecord,replace/tfrecord/file",
}


@pytest.mark.parametrize("crash", CASES)
def test_promises_hold(crash: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    cases = chosen(CASES[crash].split(","))
    words = [f"--{crash.split()[0]}", str(len(cases)), "--only", ",".join(cases), "--seed", str(SEED)]
    command = [sys.executable, "-m", "tests.deep.remote.kills", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
