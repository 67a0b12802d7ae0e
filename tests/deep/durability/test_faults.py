"""Every file operation of every writer may fail, be cut short, or be the last one of the process.

`python -m tests.deep.durability.faults` tries all cases (some 100,000, in hours); here are a few of them, by the seed
of `tests.campaign`. A failure names its case, which `--only SCENARIO --fault FAULT` repeats.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign import SEED, share
from tests.deep.durability.faults.client import FaultServer, sample
from tests.deep.durability.faults.scenarios import SCENARIOS
from tests.deep.durability.faults.shim import build, parse_log, why_not
from tests.deep.durability.faults.strace import counts_of_shim, counts_of_strace, unknown_calls

N_CASES = share(200)
N_PARTS = 4
TRACED = ("resumed", "replace", "replace-shards-by-shards", "grow", "convert-shards")
PATHS = os.pathsep.join(filter(None, sys.path))

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"injects no faults: {why_not()}")

WRITE_ALL = """
import sys
import tempfile
from pathlib import Path
from tests.deep.durability.faults.scenarios import SCENARIOS
for name in sys.argv[2:]:
    folder = Path(sys.argv[1], name.replace("/", "-"), "data")
    folder.mkdir(parents=True)
    SCENARIOS[name].prepare(folder)
    SCENARIOS[name].write(folder, lambda n: None)
"""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    # Syncs would take most of the time on a disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.TemporaryDirectory(prefix="dataformats-faults-", dir=memory)
    with folder, FaultServer(Path(folder.name)) as server:
        yield server


@pytest.mark.parametrize("part", range(N_PARTS))
def test_promises_hold_after_a_fault(server: FaultServer, part: int) -> None:
    cases = sample(server, [*SCENARIOS][part::N_PARTS], N_CASES // N_PARTS, SEED)
    broken = [(f"{name} {fault}", server.violations(name, fault)) for name, fault in cases]
    assert [f"{case}: {'; '.join(found)}" for case, found in broken if found] == []


def test_every_kind_of_operation_is_seen(server: FaultServer) -> None:
    """No kind of operation has disappeared; this check needs no strace."""
    names = [name for name in SCENARIOS if name.rpartition("/")[2] in TRACED[-3:]]
    kinds = {op.kind for name in names for op in server.operations(name)}
    expected = {"create", "open", "write", "fsync", "ftruncate", "rename", "unlink", "rmdir", "mkdir", "close", "flock"}
    assert kinds >= expected


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_shim_counts_the_system_calls_of_strace(tmp_path: Path) -> None:
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
