"""Conversions that are killed at random moments, run out of disk, or run twice at once: resumed to the same bytes."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from tests.campaign import SEED, share
from tests.waiting import wait_until

N = 3000
SPEC = {"n": "int64", "image": "uint8[16,16]"}
SCRIPT = """
import resource, sys
import dataformats
source, target, workers, limit, *options = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
if __name__ == "__main__":
    shards = {"shard_records": 250} if "shards" in options else {}
    report = dataformats.convert(
        source, target, "granular", resume="resume" in options, workers=int(workers), map=dict, **shards
    )
    print(report.records, report.resumed)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    with dataformats.create(folder / "source.tfrecord", "tfrecord", spec=SPEC) as writer:
        writer.extend({"n": i, "image": np.full((16, 16), i % 256, np.uint8)} for i in range(N))
    (folder / "convert.py").write_text(SCRIPT)
    return folder / "source.tfrecord"


def start(source: Path, target: Path, workers: int, *options: str, limit: int = 0) -> subprocess.Popen[str]:
    script = str(source.with_name("convert.py"))
    command = [sys.executable, script, str(source), str(target), str(workers), str(limit), *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def whole(source: Path, target: Path, *options: str) -> dict[str, bytes]:
    """Return the content of an undisturbed conversion."""
    assert start(source, target, 0, *options).communicate()[0].split()[0] == str(N)
    return tree(target)


def written(folder: Path) -> int:
    """Return the bytes of unfinished conversions in a folder."""
    n_bytes = 0
    for parent, _, names in os.walk(folder):  # without folders that are renamed meanwhile
        for name in names:
            path = os.path.join(parent, name)
            with suppress(FileNotFoundError):  # renamed meanwhile
                n_bytes += os.stat(path).st_size if ".partial" in path else 0
    return n_bytes


def wait_for_bytes(process: subprocess.Popen[str], folder: Path, n_bytes: float) -> None:
    """Wait until a conversion has written so many bytes, or ended."""
    wait_until(lambda: written(folder) >= n_bytes or process.poll() is not None)


@pytest.mark.parametrize(("workers", "options"), [(0, ()), (2, ("shards",))], ids=["here", "two workers"])
def test_killed_at_random_moments(source: Path, workers: int, options: tuple[str, ...], tmp_path: Path) -> None:
    expected = whole(source, tmp_path / "whole", *options)
    n_bytes = sum(map(len, expected.values()))
    target, chosen = tmp_path / "new", random.Random(SEED)
    for _ in range(share(5)):
        process = start(source, target, workers, "resume", *options)
        wait_for_bytes(process, tmp_path, chosen.uniform(written(tmp_path), 1.1 * n_bytes))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if target.exists():
            assert tree(target) == expected
    out, errors = start(source, target, workers, "resume", *options).communicate(timeout=240)
    assert out.split()[:1] == [str(N)], errors
    assert tree(target) == expected
    assert sorted(path.name for path in tmp_path.iterdir() if "new" in path.name) == ["new", "new.dataformats.json"]


def test_conversion_resumes_after_file_size_limit(source: Path, tmp_path: Path) -> None:
    expected = whole(source, tmp_path / "whole")
    _, errors = start(source, tmp_path / "new", 0, limit=300_000).communicate(timeout=240)
    assert "File too large" in errors
    assert not (tmp_path / "new").exists()
    out, errors = start(source, tmp_path / "new", 0, "resume").communicate(timeout=240)
    assert out.split()[:1] == [str(N)], errors
    assert tree(tmp_path / "new") == expected


def test_two_conversions_to_one_target_at_once(source: Path, tmp_path: Path) -> None:
    both = [start(source, tmp_path / "new", 0, "shards", "resume") for _ in range(2)]
    results = [process.communicate(timeout=240) for process in both]
    finished = [out for out, _ in results if out]
    assert finished
    assert all(out.split()[0] == str(N) for out in finished)
    assert all("TargetInUseError" in errors or "TargetExistsError" in errors for out, errors in results if not out)
    assert len(dataformats.open(tmp_path / "new")) == N
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "new.dataformats.json"]


def kill_once(flag: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Kill the process that converts a record, the first time."""
    if record["n"] == 1200 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def test_conversion_resumes_after_a_killed_worker(source: Path, tmp_path: Path) -> None:
    function = functools.partial(kill_once, tmp_path / "killed")

    def convert(resume: bool) -> dataformats.ConvertReport:
        context = multiprocessing.get_context("fork")  # other processes could not import the function
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            return dataformats.convert(
                source, tmp_path / "new", "ffrecord", executor=executor, map=function, shard_records=250, resume=resume
            )

    with pytest.raises(dataformats.WorkerError, match="resume=True"):
        convert(resume=False)
    report = convert(resume=True)
    assert report.records == N
    assert [found["n"] for found in dataformats.open(tmp_path / "new")] == list(range(N))


SECOND = """
import os, sys
import dataformats
{guard}
    dataformats.convert(sys.argv[1], sys.argv[2] + "-1", "ffrecord", workers=2, shard_records=1000)
    child = os.fork()
    dataformats.convert(sys.argv[1], sys.argv[2] + ("-2" if child else "-3"), "ffrecord", workers=2, shard_records=1000)
    if child:
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("guard", ["if __name__ == '__main__':", "if True:"])
def test_workers_of_a_script_and_of_its_forked_child(source: Path, guard: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SECOND.format(guard=guard))
    other = tmp_path / "current" / "dataformats.py"  # a fork server would look here first
    other.parent.mkdir()
    other.write_text("raise RuntimeError")
    command = [sys.executable, str(tmp_path / "script.py"), str(source), str(tmp_path / "new")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        command, env=environment, cwd=other.parent, text=True, capture_output=True, timeout=240, check=False
    )
    if "name" in guard:
        assert done.returncode == 0, done.stderr
        assert len({repr(tree(tmp_path / f"new-{number}").values()) for number in (1, 2, 3)}) == 1
    else:
        assert "put the code of the script under" in done.stderr
