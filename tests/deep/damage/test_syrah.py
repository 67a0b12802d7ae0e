"""Unfinished Syrah files, cut at every byte and resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.backends.test_syrah import left_behind, resumed
from tests.campaign import chosen


def test_resume_keeps_whole_records_of_torn_files(tmp_path: Path) -> None:
    path, journal = left_behind(tmp_path)
    data, entries = path.read_bytes(), journal.read_bytes()
    for stop in chosen(range(len(data))):
        path.write_bytes(data[:stop])
        journal.write_bytes(entries)
        ends = 22 + np.cumsum([8 + i for i in range(6)])
        assert resumed(path) == int((ends <= stop).sum())
    path.write_bytes(data)
    journal.write_bytes(entries[:-1])
    assert resumed(path) == 5
