"""A file system in memory whose changes are noted, and can fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import fsspec
import pytest

STEPS = ("pipe_file", "put_file", "cp_file", "mv", "rm_file", "rm")


class Killed(BaseException):
    """The process is gone: nothing after it happens."""


class Remote:
    """The file system in memory, whose `at`-th change fails; if that `stays`, all later ones too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dataformats.staging.redo_log._PATIENCE_S", 0.05)
        self.memory = fsspec.filesystem("memory")
        self.memory.store.clear()
        self.memory.pseudo_dirs[:] = [""]
        self.at, self.stays, self.steps = -1, False, list[tuple[str, str]]()
        self.before: Callable[[], object] | None = None  # called instead of the failure
        self.within = threading.local()  # a change that is made of others is noted once; threads change at once
        for name in STEPS:
            monkeypatch.setattr(type(self.memory), name, self._patched(name, getattr(type(self.memory), name)))

    def fail(self, at: int, *, stays: bool) -> None:
        self.at, self.stays = at, stays
        self.steps.clear()

    def _patched(self, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(memory: Any, path: Any, *arguments: Any, **named: Any) -> Any:
            depth = getattr(self.within, "depth", 0)
            if depth == 0 and self.at >= 0 and not str(path).endswith("/heartbeat"):  # a thread writes it any time
                self.steps.append((step, arguments[0] if step in ("put_file", "cp_file", "mv") else path))
                if len(self.steps) - 1 == self.at and self.before is not None:
                    self.before()
                elif self.before is None and (
                    len(self.steps) - 1 == self.at or (self.stays and len(self.steps) > self.at)
                ):
                    raise Killed if self.stays else OSError("refused")
            self.within.depth = depth + 1
            try:
                return real(memory, path, *arguments, **named)
            finally:
                self.within.depth = depth

        return change
