"""Starts a server with the shim, and asks it for operations and for the promises that a fault breaks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.deep.durability.faults.shim import Fault, Operation, build, faults_of


class FaultServer:
    """A process that runs writers with faults.

    Args:
        folder: An empty folder, for the shim and for the files of the writers.
    """

    def __init__(self, folder: Path) -> None:
        work, cache = folder / "work", folder / "cache"
        work.mkdir()
        found = os.pathsep.join(path for path in sys.path if path)
        environment = {"LD_PRELOAD": str(build(folder)), "PYTHONPATH": found, "DATAFORMATS_CACHE": str(cache)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.deep.durability.faults.server", work],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._operations: dict[str, list[Operation]] = {}

    def operations(self, name: str) -> list[Operation]:
        """Return the operations of a scenario."""
        if name not in self._operations:
            self._operations[name] = [Operation(*pair) for pair in self._ask(name)["operations"]]
        return self._operations[name]

    def faults(self, name: str) -> Iterator[Fault]:
        """Yield every fault that a scenario can meet."""
        return faults_of(self.operations(name))

    def violations(self, name: str, fault: Fault) -> list[str]:
        """Return which promises a scenario breaks if it meets a fault."""
        found: list[str] = self._ask(f"{name} {fault}")["violations"]
        return found

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the server ended at {line!r}"
        found: dict[str, Any] = json.loads(answer)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()


def sample(server: FaultServer, names: Sequence[str], n: int, seed: int) -> Iterator[tuple[str, Fault]]:
    """Yield `n` cases: each scenario about as often as another, and each of its faults with the same probability."""
    chosen = random.Random(seed)
    turn: list[str] = []
    for at in range(n):
        if at % len(names) == 0:
            turn = chosen.sample(names, len(names))
        name = turn[at % len(names)]
        yield name, chosen.choice([*server.faults(name)])
