"""A concatenation of concatenations is one list of parts."""

from __future__ import annotations

import sys
from pathlib import Path

import dataformats
from dataformats.interfaces.record_source import RecordSource


def test_repeated_concat_is_flat(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", spec={"n": "int64"}) as writer:
        writer.extend({"n": i} for i in range(3))
    part = dataformats.open(tmp_path / "x.ffr")
    n_parts = sys.getrecursionlimit()
    whole: RecordSource = part
    for _ in range(n_parts - 1):
        whole = dataformats.concat([whole, part])
    assert len(whole) == 3 * n_parts
    assert whole.read([0, 3 * n_parts - 2])["n"].tolist() == [0, 1]
    assert whole.fingerprint == dataformats.concat([part] * n_parts).fingerprint
