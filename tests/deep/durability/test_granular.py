"""Granular writers that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats
from tests.backends.test_granular import files_in

KILLED = """
import os, signal, sys
import dataformats
path, spec, sharded, n = sys.argv[1], eval(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
writer = dataformats.create(path, "granular", spec=spec, resume=True, shard_records=sharded or None)
for i in range(len(writer), n):
    row = {"a": "row %d" % i, "n": i, "s": ["s%d" % i] * (i % 3)}
    writer.append({name: row[name] for name in spec})
    if i % 1000 == 500:
        writer.flush(sync=True)
        print(i + 1, flush=True)
        if i > 1500 and i > n - 2000:
            os.kill(os.getpid(), signal.SIGKILL)
writer.close()
"""


@pytest.mark.parametrize("sharded", [0, 700])
@pytest.mark.parametrize("generation", [2, 3])
def test_kill_and_go_on(generation: int, sharded: int, tmp_path: Path) -> None:
    spec = {"a": "utf8", "n": "int"} | ({"s": "utf8[]"} if generation == 2 else {})
    path = tmp_path / "d"
    confirmed = 0
    for n in (3000, 6000):
        command = [sys.executable, "-c", KILLED, str(path), repr(spec), str(sharded), str(n)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        confirmed = int(done.stdout.split()[-1])
    rows = [{"a": f"row {i}", "n": i, "s": [f"s{i}"] * (i % 3)} for i in range(7000)]
    rows = [{name: row[name] for name in spec} for row in rows]
    with dataformats.create(path, "granular", spec=spec, resume=True, shard_records=sharded or None) as writer:
        assert len(writer) >= confirmed > 3000
        writer.extend(rows[len(writer) :])
    with dataformats.create(tmp_path / "again", "granular", spec=spec, shard_records=sharded or None) as writer:
        writer.extend(rows)
    assert files_in(path) == files_in(tmp_path / "again")
    assert list(dataformats.open(path)) == rows
    assert sorted(part.name for part in tmp_path.iterdir()) == ["again", "d"]
