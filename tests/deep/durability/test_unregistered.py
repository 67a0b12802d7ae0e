"""A format that is registered only in this process: new processes fail with its name instead of hanging."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

import dataformats
from dataformats import register_backend
from dataformats.backends.ffrecord.backend import FFRecordBackend
from dataformats.errors import UnknownNameError
from dataformats.registry import backends
from dataformats.testing import FormatCase
from dataformats.testing.subprocess_entry import kill_when_ready, map_in_processes, read_pickle, run_command


class Private(FFRecordBackend):
    name = "private"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bytes:
    monkeypatch.setattr(backends, "_objects", dict(backends._objects))
    register_backend(Private())
    with dataformats.create(tmp_path / "x.private", "private") as writer:
        writer.append(b"record")
    return pickle.dumps(dataformats.open(tmp_path / "x.private", format="private", payload="bytes"))


@pytest.mark.parametrize("method", [name for name in multiprocessing.get_all_start_methods() if name != "fork"])
def test_without_setup(source: bytes, method: str) -> None:
    with pytest.raises(UnknownNameError, match="private"):
        map_in_processes(FormatCase("private", "private", ".private"), method, read_pickle, [source])


def test_failing_setup_raises_in_every_process(source: bytes) -> None:
    case = FormatCase("private", "private", ".private", setup="no_such_module:register")
    with pytest.raises(BrokenProcessPool):
        map_in_processes(case, "spawn", read_pickle, [source])
    with pytest.raises(AssertionError, match="no_such_module"):
        run_command(case, "read_with_few_descriptors", "x", 64)
    with pytest.raises(AssertionError, match="no_such_module"):
        kill_when_ready(case, "write_until_killed", "x", {}, 1, 1)
