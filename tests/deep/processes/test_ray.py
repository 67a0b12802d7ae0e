"""Conversions on a Ray cluster that loses a worker and a node, and records in Ray Data."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats
from tests.deep.processes.ray_cluster import DIGITS

UNSHARE = shutil.which("unshare")
NAMESPACE = [UNSHARE or "", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net"]


def _why_not() -> str | None:
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("pandas") is None:
        return "Ray, with pandas, is not installed"
    if UNSHARE is None or subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        return "no network namespace, without which Ray would ask machines outside"
    return None


REASON = _why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def test_ray_conversion_survives_lost_worker_and_node(tmp_path: Path) -> None:
    """Each record once, in the same bytes as on one machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "ray_bootstrap_config.yaml").touch()  # it is asked for before the metadata of clouds
    environment = {
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",
    }
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-m", "tests.deep.processes.ray_cluster", str(tmp_path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert (found["records"], found["files"], found["cpus"], found["nodes_left"]) == (1797, 18, 2, 1)
    assert (tmp_path / "killed").exists()
    for alone in (tmp_path / "alone").iterdir():
        assert (tmp_path / "cluster" / alone.name).read_bytes() == alone.read_bytes()
    assert sorted(path.name for path in (tmp_path / "cluster").iterdir()) == sorted(os.listdir(tmp_path / "alone"))
    shuffled = dataformats.verify(tmp_path / "cluster", against=DIGITS, shuffle_seed=1)
    assert found["differences"] == shuffled.differences
    assert found["differences"]["label"] > 1000
    assert "no such record" in found["error"]
    assert not (tmp_path / "failing").exists()
    assert found["broken"]
    assert found["labels"] == [record["label"] for record in dataformats.open(DIGITS)]
