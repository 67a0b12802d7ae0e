"""A file system in memory whose changes are noted, and can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fsspec
import pytest

__all__ = ["Killed", "Remote"]

STEPS = ("pipe_file", "put_file", "cp_file", "mv", "rm_file", "rm")


class Killed(BaseException):
    """The process is gone: nothing after it happens."""


class Remote:
    """The file system in memory, whose `at`-th change fails; if that `stays`, all later ones too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memory = fsspec.filesystem("memory")
        self.memory.store.clear()
        self.memory.pseudo_dirs[:] = [""]
        self.at, self.stays, self.depth, self.steps = -1, False, 0, list[tuple[str, str]]()
        for name in STEPS:
            monkeypatch.setattr(type(self.memory), name, self._patched(name, getattr(type(self.memory), name)))

    def fail(self, at: int, *, stays: bool) -> None:
        self.at, self.stays = at, stays
        self.steps.clear()

    def _patched(self, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(memory: Any, path: Any, *arguments: Any, **named: Any) -> Any:
            if self.depth == 0 and self.at >= 0:
                self.steps.append((step, arguments[0] if step in ("put_file", "cp_file", "mv") else path))
                if len(self.steps) - 1 == self.at or (self.stays and len(self.steps) > self.at):
                    raise Killed if self.stays else OSError("refused")
            self.depth += 1
            try:
                return real(memory, path, *arguments, **named)
            finally:
                self.depth -= 1

        return change
