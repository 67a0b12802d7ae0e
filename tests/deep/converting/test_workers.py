"""Worker processes of conversions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dataformats
from dataformats.converting.executors import worker_pool

DRAW = "__import__('time').sleep(0.5) or __import__('numpy').random.random()"


def test_workers_draw_different_random_numbers() -> None:
    with worker_pool(2) as pool:
        assert pool is not None
        draws = [pool.submit(eval, DRAW) for _ in range(4)]
        assert len({draw.result() for draw in draws}) == 4


def test_fork_server_looks_where_flags_of_python_allow(tmp_path: Path) -> None:
    (tmp_path / "dataformats").symlink_to(Path(dataformats.__file__).parent)
    show = "from dataformats.fork_server import preloaded; print(len(preloaded()) > 1)"
    found = [
        subprocess.check_output(
            [sys.executable, *flags, "-c", f"import sys; sys.path.insert(0, ''); {show}"], cwd=tmp_path
        )
        for flags in ([], ["-P"])
    ]
    assert found == [b"True\n", b"False\n"]
