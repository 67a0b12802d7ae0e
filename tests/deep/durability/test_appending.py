"""A program that appends is killed: the name has the old data, or all new ones, and synced records are found again."""

from __future__ import annotations

import itertools
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.storage import atomic
from tests.writing.test_appending import COPIES, appending, create, leftovers, numbers, record


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process, which ends with status 1 after it; return the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
        child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(1)


@pytest.mark.parametrize("case", ["tfrecord", "ofrecord", "granular", "tfrecord shards"])
def test_synced_records_survive_kill_9(case: str, tmp_path: Path) -> None:
    path = create(tmp_path, case, range(10))
    reading, writing = os.pipe()

    def append() -> None:
        writer = appending(path, case, resume=True)
        for n in itertools.count(10):
            writer.append(record(n))
            writer.flush(sync=True)
            os.write(writing, b".")

    child = in_child(append)
    os.close(writing)
    confirmed = 10 + sum(len(os.read(reading, 1)) for _ in range(10))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    assert confirmed == 20  # else the child ended by itself
    if case in COPIES:
        assert numbers(path) == list(range(10))
    else:
        with dataformats.open(path) as src:  # the record that was being written may be torn: reading it raises
            assert src.read(range(confirmed))["n"].tolist() == list(range(confirmed))
    with appending(path, case, resume=True) as writer:
        assert len(writer) >= confirmed
        count = len(writer)
    assert numbers(path) == list(range(count))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("case", "every"), [("tfrecord", 1), ("tfrecord shards", 2), ("granular shards", 5)])
def test_every_step_of_an_append_can_be_the_last(case: str, every: int, tmp_path: Path) -> None:
    """Ends the process before the n-th rename, link, sync or deletion; then the next append begins again."""
    steps: list[tuple[Any, str]] = [(os, "rename"), (os, "replace"), (os, "link"), (os, "fsync"), (os, "unlink")]
    steps += [(atomic, "exchange"), (atomic, "rename_new"), (Path, "rename"), (Path, "unlink")]
    for last in itertools.count(1, every):
        path = create(tmp_path / str(last), case, range(5))
        calls = itertools.count(1)

        def append(path: Path = path, calls: Any = calls, last: int = last) -> None:
            for owner, name in steps:
                original = getattr(owner, name)

                def step(*arguments: Any, original: Any = original, **options: Any) -> Any:
                    if next(calls) == last:
                        os._exit(9)
                    return original(*arguments, **options)

                setattr(owner, name, step)
            with appending(path, case) as writer:
                writer.extend(map(record, range(5, 8)))
            os._exit(0)

        status = os.waitstatus_to_exitcode(os.waitpid(in_child(append), 0)[1])
        assert status in {0, 9}
        assert len(numbers(path)) in {5, 8}
        with appending(path, case) as writer:
            assert len(writer) == len(numbers(path))
            writer.append(record(len(writer)))
        assert numbers(path) in (list(range(6)), list(range(9)))
        assert dataformats.verify(path).ok
        assert leftovers(path.parent) == []
        if status == 0:
            assert last > 5
            return
