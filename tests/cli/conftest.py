"""Run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dataformats.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def facts(self) -> dict[str, str]:
        pairs = (line.split(": ", 1) for line in self.out.splitlines())
        return {pair[0]: pair[1] for pair in pairs}


Run = Callable[..., Result]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("DATAFORMATS_DEBUG", raising=False)

    def called(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err
        assert "Traceback" not in printed.out + printed.err
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, printed.out, printed.err)

    return called
