"""Objects that worker processes receive."""

import importlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import dataformats
from dataformats import StateMismatchError
from dataformats.converting.executors import SentOnce
from dataformats.fork_server import preload, preloaded


@dataclass(frozen=True, eq=False)
class NeedsFile(SentOnce):
    path: Path

    def __post_init__(self) -> None:
        self.path.read_bytes()


def test_unpickling_error_is_raised_in_the_task(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    sent = pickle.dumps(NeedsFile(path))
    path.unlink()
    received = pickle.loads(sent)  # an error here would end a worker process
    with pytest.raises(FileNotFoundError):
        _ = received.path
    path.touch()
    assert pickle.loads(sent).path == path


@dataclass(frozen=True, eq=False)
class Truncated(SentOnce):
    def __getattribute__(self, name: str) -> object:
        if name == "path":
            raise StateMismatchError("size of a file", expected=2, found=1, remedy="Open it again")
        return super().__getattribute__(name)

    path: Path


def test_error_of_a_source_is_not_one_of_pickling(tmp_path: Path) -> None:
    with pytest.raises(StateMismatchError, match="size of a file"):
        Truncated(tmp_path).check_pickles()


def test_fork_server_imports_this_package_only_if_it_finds_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(dataformats.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    assert {"numpy", "dataformats.converting.executors"} < {*preloaded()}
    (tmp_path / "dataformats.py").touch()
    assert preloaded() == ["numpy"]


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="the system has no fork server")
def test_fork_server_imports_modules_of_the_caller_but_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    server = importlib.import_module("multiprocessing.forkserver")._forkserver
    monkeypatch.setattr(server, "_preload_modules", ["__main__", "json"])
    preload()
    preload()
    assert server._preload_modules == ["json", *preloaded()]


def test_workers_start_if_the_folder_for_sockets_has_a_long_name(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr") as writer:
        writer.extend([b"a"] * 10)
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    code = """if __name__ == "__main__":
    import sys, dataformats
    print(dataformats.convert(sys.argv[1], sys.argv[2], "ffrecord", workers=2, shard_records=5).records)"""
    (tmp_path / "program.py").write_text(code)
    command = [sys.executable, *(str(tmp_path / name) for name in ("program.py", "x.ffr", "new"))]
    run = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=False
    )
    assert run.stdout == "10\n", run.stderr
