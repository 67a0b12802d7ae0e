"""LMDB databases that another program writes to while they are open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dataformats

WRITE = """
import lmdb, sys
with lmdb.open(sys.argv[1]) as env, env.begin(write=True) as out:
    for key in sys.argv[2:]:
        out.put(key.encode(), f"value of {key}".encode())
"""


def write(path: Path, *keys: str) -> None:
    subprocess.run([sys.executable, "-c", WRITE, str(path), *keys], check=True)


def test_a_new_key_moves_no_value(tmp_path: Path) -> None:
    pytest.importorskip("lmdb", reason="the extra lmdb is not installed")
    write(tmp_path / "x", "a", "c", "d")
    source = dataformats.open(tmp_path / "x")
    expected = [{"key": key.encode(), "value": f"value of {key}".encode()} for key in "acd"]
    assert list(source.read(np.arange(3))) == expected
    write(tmp_path / "x", "b")
    assert list(source.read(np.arange(3))) == expected
