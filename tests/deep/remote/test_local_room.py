"""Data that are sharded behind a URL need local room for two shards, not for all of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.deep.remote import s3_server

pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not()))


@pytest.mark.parametrize("writer", ["create", "append", "convert", "convert-workers"])
def test_twelve_shards_are_written_in_the_room_of_two(writer: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    sizes = ("--shards", "12", "--shard-mb", "5", "--room-mb", "10")
    command = [sys.executable, "-m", "tests.deep.remote.local_room", "--only", writer, *sizes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
