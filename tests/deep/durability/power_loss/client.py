"""Starts a server with the shim, and asks it which promises a crash breaks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.deep.durability.faults.shim import build
from tests.deep.durability.power_loss.jobs import JOBS

CRASHES = ("kill", "power", "unordered")
"""A process is killed; the power fails; the power fails, and operations on names are lost in any order."""


@dataclass(frozen=True)
class Case:
    """One crash of one job; its text, such as `tfrecord/merge:kill:5`, names it on the command line."""

    job: str
    crash: str
    seed: int

    def __str__(self) -> str:
        return f"{self.job}:{self.crash}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> Case:
        job, crash, seed = text.split(":")
        return cls(job, crash, int(seed))


class CrashServer:
    """A process whose jobs crash.

    Args:
        folder: An empty folder, for the shim and for the files of the jobs.
    """

    def __init__(self, folder: Path) -> None:
        work = folder / "work"
        work.mkdir()
        found = os.pathsep.join(path for path in sys.path if path)
        cache = str(work / "disk" / "cache")
        environment = {"LD_PRELOAD": str(build(folder)), "PYTHONPATH": found, "DATAFORMATS_CACHE": cache}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.deep.durability.power_loss.server", work],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, case: Case, keep: Path | None = None) -> dict[str, Any]:
        """Return `{"broken": [...], "order": ..., "story": [...]}`: see `Runner.run`.

        Args:
            case: The case.
            keep: The folder to which the disk is copied after the crash.
        """
        kept = None if keep is None else str(keep)
        line = json.dumps({"name": case.job, "crash": case.crash, "seed": case.seed, "keep": kept})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the server ended at {case}"
        found: dict[str, Any] = json.loads(answer)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()


def sample(crash: str, group: str, n: int, seed: int, only: Sequence[str] = ()) -> Iterator[Case]:
    """Yield `n` cases of the jobs of a group, each about as often as another; none if no name has all parts `only`."""
    names = [job.name for job in JOBS.values() if job.group == group and all(part in job.name for part in only)]
    rng = random.Random(f"{crash} {group} {seed}")
    turn: list[str] = []
    for at in range(n if names else 0):
        turn = turn or rng.sample(names, len(names))
        yield Case(turn.pop(), crash, seed * 1_000_000 + at)
