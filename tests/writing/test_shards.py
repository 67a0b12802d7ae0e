"""A writer of shards that dies between two steps: a resume finds the synced records."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

import dataformats
from dataformats.storage import atomic

SPEC = {"n": "int64"}


def write_and_die(path: Path, format: str, at: str, number: int) -> None:
    """Write 10 records in shards of 4, all synced, and end at the `number`-th call of a step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        return
    owner, name = {"rename": (Path, "rename"), "write": (atomic, "write_bytes"), "publish": (atomic, "publish")}[at]
    original = getattr(owner, name)
    calls = 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        if at != "publish" or str(arguments[0]) == f"{path}.partial":
            calls += 1
        if calls == number:
            os._exit(9)
        return original(*arguments, **options)

    try:
        setattr(owner, name, counted)
        with dataformats.create(path, format, spec=SPEC, shard_records=4, resume=True) as writer:
            for n in range(10):
                writer.append({"n": n})
                writer.flush(sync=True)
    finally:
        os._exit(1)


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord"])
@pytest.mark.parametrize(
    ("at", "number", "safe"),
    [("rename", 1, 4), ("rename", 2, 8), ("rename", 3, 10), ("rename", 4, 10), ("rename", 6, 10), ("publish", 1, 10)],
)
def test_every_step_can_be_the_last(tmp_path: Path, format: str, at: str, number: int, safe: int) -> None:
    path = tmp_path / "data"
    write_and_die(path, format, at, number)
    assert not path.exists()
    with dataformats.create(path, format, spec=SPEC, shard_records=4, resume=True) as writer:
        assert len(writer) == safe
        writer.extend({"n": n} for n in range(safe, 14))
    src = dataformats.open(path)
    assert [record["n"] for record in src] == list(range(14))
    assert len(src.paths) == 4
    assert [left.name for left in tmp_path.iterdir() if "partial" in left.name] == []
    assert dataformats.verify(path).ok
