"""Dask's executor: conversions and verifications run on its cluster unchanged, to the same bytes and findings."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
SCRIPT = """
import json, os, sys
import dataformats
from distributed import Client, LocalCluster

source, target = sys.argv[1:]
if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        executor = client.get_executor()
        workers = {*client.run(os.getpid).values()}
        report = dataformats.convert(source, target, "granular", shard_records=200, executor=executor)
        checked = dataformats.verify(target, against=source, shuffle_seed=1, executor=executor)
        found = {"records": report.records, "files": report.files, "differences": checked.differences}
        print(json.dumps(found | {"others": len(workers - {os.getpid()})}))
"""

pytestmark = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="Dask is not installed")


def test_a_cluster_converts_and_verifies(tmp_path: Path) -> None:
    script = tmp_path / "on_dask.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), DIGITS, str(tmp_path / "cluster")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "DASK_CONFIG": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    dataformats.convert(DIGITS, tmp_path / "alone", "granular", shard_records=200)
    expected = dataformats.verify(tmp_path / "alone", against=DIGITS, shuffle_seed=1).differences
    assert found == {"records": 1797, "files": 9, "differences": expected, "others": 2}
    for path in (path for path in (tmp_path / "alone").rglob("*") if path.is_file()):
        assert (tmp_path / "cluster" / path.relative_to(tmp_path / "alone")).read_bytes() == path.read_bytes()
