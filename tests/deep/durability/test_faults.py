"""Every file operation of every writer may fail, be cut short, or be the last one of the process.

Here the shim that injects the faults is compared with strace; `python -m tests.deep.durability.faults` tries all cases.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deep.durability.faults.client import FaultServer
from tests.deep.durability.faults.scenarios import SCENARIOS
from tests.deep.durability.faults.shim import build, parse_log, why_not
from tests.deep.durability.faults.strace import counts_of_shim, counts_of_strace, unknown_calls

TRACED = ("resumed", "replace", "replace-shards-by-shards", "grow", "convert-shards")
PATHS = os.pathsep.join(filter(None, sys.path))

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"injects no faults: {why_not()}")

WRITE_ALL = """
import sys
from pathlib import Path
from tests.deep.durability.faults.scenarios import SCENARIOS
for name in sys.argv[2:]:
    folder = Path(sys.argv[1], name.replace("/", "-"), "data")
    folder.mkdir(parents=True)
    SCENARIOS[name].prepare(folder)
    SCENARIOS[name].write(folder, lambda n: None)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultServer]:
    with FaultServer(tmp_path_factory.mktemp("faults")) as server:
        yield server


def test_every_kind_of_operation_is_seen(server: FaultServer) -> None:
    """Without strace, at least no kind of operation has disappeared."""
    kinds = {op.kind for name in SCENARIOS if "/fields/" in name for op in server.operations(name)}
    assert kinds >= {"create", "open", "write", "fsync", "ftruncate", "rename", "unlink", "rmdir", "mkdir", "close"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_the_shim_sees_what_strace_sees(tmp_path: Path) -> None:
    """Every system call of the writers that changes a file passes the shim."""
    data, traced, log = tmp_path / "data", tmp_path / "strace", tmp_path / "log"
    data.mkdir()
    names = [name for name in SCENARIOS if name.rpartition("/")[2] in TRACED]
    setting = {"FAULT_PREFIX": data, "FAULT_LOG": log, "LD_PRELOAD": build(tmp_path), "PYTHONPATH": PATHS}
    options = [part for name, value in setting.items() for part in ("-E", f"{name}={value}")]
    command = ["strace", "-f", "-y", "-o", str(traced), *options, sys.executable, "-c", WRITE_ALL, str(data), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("strace is not permitted here")
    assert done.returncode == 0, done.stderr
    lines = traced.read_text(errors="replace").splitlines()
    assert unknown_calls(lines, str(data)) == set()
    assert counts_of_shim(parse_log(log.read_text())) == counts_of_strace(lines, str(data))
