"""Starts the proxy in a process, and sends it commands."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.deep.remote.kills.faults import Fault

_NEVER = 10**9


@dataclass(frozen=True)
class LoggedRequest:
    """A request that the proxy saw: its fate is the status of the answer, or the fault that it met."""

    method: str
    target: str
    fate: int | str

    @property
    def changes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


class ProxyClient:
    """A running proxy.

    Args:
        port: The port of the server.

    Attributes:
        url: The endpoint of the programs.
    """

    def __init__(self, port: int) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.deep.remote.kills.proxy", str(port)],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._held: list[str] = []
        self._rest = b""
        self.url = f"http://127.0.0.1:{self._line()['port']}"

    def start(self, name: str, group: int, fault: Fault | None = None, hold_at: int | None = None) -> None:
        """Number the requests of a program from 1.

        Args:
            name: Its access key.
            group: Its process group.
            fault: The fault that it meets.
            hold_at: The request that waits for `release`, and with it all later ones.
        """
        text = None if fault is None else str(fault)
        self._ask(do="start", name=name, group=group, fault=text, hold_at=hold_at or _NEVER)

    def log(self, name: str) -> list[LoggedRequest]:
        return [LoggedRequest(*entry) for entry in self._ask(do="log", name=name)]

    def release(self, name: str, hold_at: int | None = None) -> None:
        """Let the requests of a program pass, up to another one."""
        self._ask(do="release", name=name, hold_at=hold_at or _NEVER)

    def settle(self) -> None:
        """Wait until the server has carried out all its requests."""
        self._ask(do="settle")

    def deliver(self) -> int:
        """Send the late requests now; return how many there were."""
        return int(self._ask(do="deliver"))

    def wait_held(self, name: str, ended: int, timeout_s: float) -> bool:
        """Wait until a program is held or the descriptor `ended` becomes readable; return True if it is held."""
        while name not in self._held:
            if b"\n" not in self._rest:
                ready = select.select([self._output, ended], [], [], timeout_s)[0]
                if self._output not in ready:
                    return False
            self._held.append(self._line()["held"])
        self._held.remove(name)
        return True

    @property
    def _output(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _ask(self, **words: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()
        while "held" in (line := self._line()):
            self._held.append(line["held"])
        return line["answer"]

    def _line(self) -> Any:
        while b"\n" not in self._rest:
            chunk = os.read(self._output, 2**20)
            if not chunk:
                raise RuntimeError("the proxy ended")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()
