"""Commands in errors run, and give what they promise."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import dataformats
from tests.reading.test_unknown_files import KINDS

OPENED = {"table.dat": "table.dat.csv", "table.gz": "table.gz.csv.gz"}
MADE = {"a.gz": "a", "a.bz2": "a", "a.xz": "a", "a.zip": "a.txt"}


@pytest.mark.parametrize("name", [*OPENED, *MADE])
def test_commands_for_files_of_other_programs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(KINDS[name][0])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dataformats.FormatError) as caught:
        dataformats.open(name)
    command = re.split("[Rr]un ", str(caught.value.remedy))[-1]
    if shutil.which(shlex.split(command)[0]) is None:
        pytest.skip(f"the system has no {command}")
    subprocess.run(["sh", "-c", command], check=True, timeout=240)
    if name in OPENED:
        assert len(dataformats.open(OPENED[name])) == 1
    else:
        assert Path(MADE[name]).stat().st_size
