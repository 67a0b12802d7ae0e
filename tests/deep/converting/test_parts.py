"""Parts of a conversion in real processes: one is killed and runs again, one runs twice at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import dataformats
from tests.waiting import wait_until

N, PARTS = 2000, 3
SCRIPT = """
import pathlib, sys, time
import dataformats

source, target, which = sys.argv[1:]

def slowly(record):
    time.sleep(0.0005)
    while record["n"] == 600 and pathlib.Path(target).with_name("hold").exists():  # in the third shard of part 0
        time.sleep(0.01)
    return record

part = {} if which == "all" else {"publish_parts": True} if which == "publish" else {"part": (int(which), PARTS)}
report = dataformats.convert(source, target, "granular", map=slowly, shard_records=100, **part)
print(report.records, report.resumed)
"""


def start(folder: Path, target: str, which: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(folder / "convert.py"), str(folder / "source.tfrecord"), str(folder / target), which]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def results(*processes: subprocess.Popen[str]) -> list[list[int]]:
    """Return the numbers that the processes print."""
    ended = [process.communicate(timeout=240) for process in processes]
    assert all(process.returncode == 0 for process in processes), ended
    return [[int(number) for number in out.split()] for out, _ in ended]


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_killed_and_duplicate_parts_give_the_same_bytes(tmp_path: Path) -> None:
    spec = {"n": "int64", "image": "uint8[16,16]"}
    with dataformats.create(tmp_path / "source.tfrecord", spec=spec) as writer:
        writer.extend({"n": i, "image": np.full((16, 16), i % 256, np.uint8)} for i in range(N))
    (tmp_path / "convert.py").write_text(SCRIPT.replace("PARTS", str(PARTS)))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "hold").touch()
    killed, *others = (start(tmp_path, "parts/new", which) for which in ("0", "1", "2", "2"))
    wait_until((tmp_path / "parts" / "new.partial" / "00003.json").exists)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (tmp_path / "parts" / "hold").unlink()
    assert [records for records, _ in results(*others)] == [700, 600, 600]
    incomplete = start(tmp_path, "parts/new", "publish")
    assert "the parts 0/3" in incomplete.communicate(timeout=240)[1]
    assert results(start(tmp_path, "parts/new", "0")) == [[700, 200]]
    assert not (tmp_path / "parts" / "new").exists()
    whole, committed = results(start(tmp_path, "whole/new", "all"), start(tmp_path, "parts/new", "publish"))
    assert whole == committed == [N, 0]
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
