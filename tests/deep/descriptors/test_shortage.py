"""Many more files than a process may open, with few descriptors left: read in every way, on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dataformats

pytest.importorskip("resource")

FILES = 300
FORMATS = {
    "tfrecord": ".tfrecord",
    "ofrecord": ".ofrecord",
    "ffrecord": ".ffr",
    "syrah": ".syr",
}

SCRIPT = """
import os, resource, sys
import numpy as np
import dataformats

def check(folder, io, what):
    source = dataformats.open(folder, io=io)
    order = np.random.default_rng(0).permutation(len(source))
    if what == "read":
        for _ in range(2):
            assert source.read(order)["id"].tolist() == order.tolist()
        assert [source[int(i)]["id"] for i in order[:300]] == order[:300].tolist()
        assert [record["id"] for record in source] == list(range(len(source)))
        assert dataformats.info(folder, io=io).fingerprint == source.fingerprint
    elif what == "verify":
        assert dataformats.verify(folder, io=io).ok
    else:
        with dataformats.Loader(source, 32, workers=2, worker_type=what, drop_last=False) as loader:
            assert sorted(i for batch in loader for i in batch["id"].tolist()) == list(range(len(source)))

def main():
    folder, io, what, free = sys.argv[1:]
    held = [os.dup(0) for _ in range(100)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 100,) * 2)
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        for _ in range(int(free)):
            os.close(held.pop())
    check(folder, io, what)
    print("done")

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, suffix in FORMATS.items():
        made[name] = tmp_path_factory.mktemp(name)
        for number in range(FILES):
            with dataformats.create(made[name] / f"{number:04}{suffix}", name, spec={"id": "int64"}) as writer:
                writer.extend({"id": 3 * number + i} for i in range(3))
    return made


def run(folder: Path, tmp_path: Path, io: str, what: str, free: int) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(folder), io, what, str(free)]
    environment = {**os.environ, "DATAFORMATS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("free", [2, 8, 25])
@pytest.mark.parametrize("name", FORMATS)
def test_all_formats(name: str, free: int, folders: dict[str, Path], tmp_path: Path) -> None:
    run(folders[name], tmp_path, "auto", "read", free)


@pytest.mark.parametrize("free", [3, 12])
@pytest.mark.parametrize("io", ["uring", "libaio", "threads"])
def test_all_engines(io: str, free: int, folders: dict[str, Path], tmp_path: Path) -> None:
    run(folders["tfrecord"], tmp_path, io, "read", free)


@pytest.mark.parametrize(("what", "free"), [("verify", 3), ("thread", 3), ("process", 60)])
def test_verify_and_loaders(what: str, free: int, folders: dict[str, Path], tmp_path: Path) -> None:
    run(folders["tfrecord"], tmp_path, "auto", what, free)
