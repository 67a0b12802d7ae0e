"""An FFRecord writer with `records=` that is killed; the conformance suite kills all others."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from dataformats.backends.ffrecord import BACKEND
from tests.backends.test_ffrecord import plain_file

KILLED = """
import os, signal, sys
from pathlib import Path
from dataformats.backends.ffrecord import BACKEND
writer = BACKEND.create(Path(sys.argv[1]), records=6000)
for i in range(5000):
    writer.append(b"%d" % i * (i % 7))
writer.flush(sync=True)
for i in range(5000, 5100):
    writer.append(b"%d" % i * (i % 7))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_and_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.ffr.partial"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    writer = BACKEND.create(path, resume=True, records=6000)
    assert writer.n_records >= 5000
    blobs = [b"%d" % i * (i % 7) for i in range(6000)]
    for blob in blobs[writer.n_records :]:
        writer.append(blob)
    writer.close()
    assert path.read_bytes() == plain_file(blobs)
