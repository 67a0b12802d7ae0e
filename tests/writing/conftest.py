"""Files of these tests lie in memory if the system allows it: syncs would take most of the time on a disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm"


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="dataformats-", dir=MEMORY) as folder:
        yield Path(folder)
