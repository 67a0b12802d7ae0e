"""Ranks in a real world of two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

WORLD = """
import sys
import torch.distributed as distributed
from dataformats.loaders.ranks import resolve
store = distributed.FileStore(sys.argv[1], 2)
distributed.init_process_group("gloo", store=store, rank=int(sys.argv[2]), world_size=2)
print(*resolve("auto"))
distributed.barrier()  # a process that exits before the other has connected looks crashed
distributed.destroy_process_group()
"""


def test_a_real_world_of_two(tmp_path: Any) -> None:
    pytest.importorskip("torch", reason="the extra torch is not installed")
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORLD, str(tmp_path / "store"), str(rank)],
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},  # a machine need not know its own name
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]

    assert [process.communicate(timeout=240)[0].split() for process in processes] == [["0", "2"], ["1", "2"]]
