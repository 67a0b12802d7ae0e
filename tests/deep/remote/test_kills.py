"""A few cases of `python -m tests.deep.remote.kills`, which kills writers of S3 and interleaves them."""

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


@pytest.mark.parametrize(
    "cases",
    [
        ("--kills", "16", "--only", "create,replace,append"),
        ("--kills", "8", "--only", "convert-pool/ffrecord,convert-parts/ffrecord,merge,split,repair"),
        ("--failures", "8", "--only", "close-twice,append/tfrecord,replace/tfrecord/file"),
        ("--pairs", "12", "--only", "create/tfrecord,replace/tfrecord,append,resume/tfrecord"),
    ],
    ids=lambda cases: f"{cases[0]} {cases[3].partition(',')[0]}",
)
def test_promises_hold(cases: tuple[str, ...]) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.deep.remote.kills", *cases, "--seed", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
