"""The power may fail after every file operation of every writer, and every process may be killed there.

`python -m tests.deep.durability.power_loss --power 5000` tries more cases than these, which the seed of
`tests.campaign` chooses. A failure names its case, which `--case CASE` repeats, and tells.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign import SEED, share
from tests.deep.durability.faults.shim import Action, build, why_not
from tests.deep.durability.power_loss.client import CrashServer, sample
from tests.deep.durability.power_loss.disk import Disk, FileSystem
from tests.deep.durability.power_loss.jobs import GROUPS, JOBS, Place
from tests.deep.durability.power_loss.recording import events_of
from tests.deep.durability.power_loss.tree import read_tree, same_tree

N_POWER_LOSSES, N_KILLS = share(11), share(2)  # cases of each group
PATHS = os.pathsep.join(filter(None, sys.path))

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"records no operations: {why_not()}")

RUN = """
import sys
from pathlib import Path
from tests.deep.durability.power_loss.jobs import JOBS, Notes, Place
JOBS[sys.argv[1]].calls[0](Place(*map(Path, sys.argv[2:])), Notes(print, print))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.TemporaryDirectory(prefix="dataformats-power-", dir=memory)
    with folder, CrashServer(Path(folder.name)) as server:
        yield server


@pytest.mark.parametrize("group", GROUPS)
def test_promises_hold_after_power_loss(server: CrashServer, group: str) -> None:
    cases = [*sample("power", group, N_POWER_LOSSES, SEED), *sample("kill", group, N_KILLS, SEED)]
    broken = [(case, server.run(case)["broken"]) for case in cases]
    assert [f"{case}: {'; '.join(found)}" for case, found in broken if found] == []


@pytest.mark.parametrize("name", ["tfrecord/replace-shards-by-shards", "granular-3/append-resume-shards"])
@pytest.mark.parametrize("last", [10, 45, 80])
def test_record_has_all_changes_of_killed_process(name: str, last: int, tmp_path: Path) -> None:
    job, disk, record = JOBS[name], tmp_path / "disk", tmp_path / "record"
    place = Place(disk / "data", disk / "sources")
    for folder in (place.data, place.source):
        folder.mkdir(parents=True)
    record.touch()
    job.prepare(place)
    before = read_tree(disk)
    fault = {"FAULT_PREFIX": disk, "FAULT_RECORD": record, "FAULT_AT": last, "FAULT_ACTION": int(Action.KILL_BEFORE)}
    environment = {**fault, "LD_PRELOAD": build(tmp_path), "PYTHONPATH": PATHS, "DATAFORMATS_CACHE": tmp_path}
    done = subprocess.run(
        [sys.executable, "-c", RUN, name, place.data, place.source],
        env=os.environ | {key: str(value) for key, value in environment.items()},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    found = Disk(before, FileSystem())
    found.apply(events_of(record.read_bytes()))
    assert not same_tree(found.tree(), before)
    assert same_tree(found.tree(), read_tree(disk))
