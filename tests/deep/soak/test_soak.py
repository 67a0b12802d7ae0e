"""A short run of the soak; `make soak SECONDS=1800` is a long one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.campaign import SEED


@pytest.mark.skipif(sys.platform != "linux", reason="resources are counted in /proc")
@pytest.mark.timeout(900)
def test_a_short_run() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = ["--measurements", "20", "--every", "4", "--seed", str(SEED)]
    command = [sys.executable, "-m", "tests.deep.soak", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
