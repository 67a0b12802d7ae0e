"""Syrah writers that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import dataformats
from tests.backends.test_syrah import SPEC, row_of, write_file

KILLED = """
import sys
from dataformats.writing.dataset_writer import create
writer = create(sys.argv[1], "syrah", spec={"n": "int64", "data": "bytes"}, resume=True)
for i in range(len(writer), 10**9):
    writer.append({"n": i, "data": bytes([i % 256]) * (i % 7)})
    if i % 1000 == 500:
        writer.flush(sync=True)
        print(i + 1, flush=True)
"""


def test_a_killed_writer_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "a.syr"
    safe = 0
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(3):
            safe = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert not path.exists()
    with dataformats.create(path, "syrah", spec=SPEC, resume=True) as writer:
        done = len(writer)
        assert done >= safe
        writer.extend(row_of(i) for i in range(done, done + 10))
    write_file(tmp_path / "whole.syr", SPEC, [row_of(i) for i in range(done + 10)])
    assert path.read_bytes() == (tmp_path / "whole.syr").read_bytes()
    assert not [left for left in tmp_path.iterdir() if "partial" in left.name]
