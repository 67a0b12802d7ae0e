"""The example of training: killed and started again, it ends with the same weights, bit for bit."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"

pytestmark = [
    pytest.mark.skipif(not EXAMPLE.exists(), reason="runs an example of a checkout, and these tests stand outside one"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the extra torch is not installed"),
]
OPTIONS = ["--epochs", "2", "--save-every", "3"]
# Python runs this first in every process. It kills its own in the middle of a save, which is behind the last step that
# was saved. A watcher outside of the process could be too slow.
KILL = """
import os, signal
replace, left = os.replace, int(os.environ["KILL_AFTER_SAVES"])

def kill_or_replace(source, target, **options):
    global left
    if str(target).endswith(".pt"):
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
    replace(source, target, **options)

os.replace = kill_or_replace
"""


def command(checkpoint: Path, *options: str) -> list[str]:
    return [sys.executable, str(EXAMPLE), str(checkpoint), *OPTIONS, *options]


def trained(checkpoint: Path, *options: str) -> tuple[str, str]:
    """Train to the end; return the digest of the weights, and all that was printed."""
    done = subprocess.run(command(checkpoint, *options), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("weights ")
    return last, done.stdout


def killed_after(saves: int, checkpoint: Path, *options: str) -> None:
    """Train until this many checkpoints were written and one more is about to appear, and kill it."""
    (checkpoint.parent / "sitecustomize.py").write_text(KILL, "utf-8")
    path = os.pathsep.join([str(checkpoint.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "KILL_AFTER_SAVES": str(saves)}
    done = subprocess.run(
        command(checkpoint, *options), env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoint.with_suffix(".partial").exists()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    weights, printed = trained(tmp_path_factory.mktemp("whole") / "c.pt")
    assert "resumed" not in printed
    assert "position 3594" in printed
    return weights


def test_killed_and_resumed_with_other_workers(uninterrupted: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.pt"
    killed_after(4, checkpoint, "--workers", "2", "--worker-type", "process")
    killed_after(17, checkpoint, "--workers", "0")  # the second epoch: each has 57 steps, which is 19 checkpoints
    checkpoint.with_suffix(".partial").write_bytes(b"half")  # torn by a kill: the next save overwrites it
    weights, printed = trained(checkpoint, "--workers", "3")
    assert "resumed at position" in printed
    assert weights == uninterrupted
