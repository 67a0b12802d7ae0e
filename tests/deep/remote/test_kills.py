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


@pytest.mark.parametrize(
    "cases",
    [
        ("--kills", "9", "--only", "create,replace,append"),
        ("--kills", "5", "--only", "convert-pool/ffrecord,convert-parts/ffrecord,merge,split,repair"),
        ("--failures", "5", "--only", "close-twice,append/tfrecord,replace/tfrecord/file"),
    ],
    ids=lambda cases: f"{cases[0]} {cases[3].partition(',')[0]}",
)
def test_promises_hold(cases: tuple[str, ...]) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seed = os.environ.get("DATAFORMATS_FAULT_SEED", "0")
    command = [sys.executable, "-m", "tests.deep.remote.kills", *cases, "--seed", seed]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
