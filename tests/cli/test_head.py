"""dataformats head: the first records, with pictures."""

from __future__ import annotations

import pytest

from dataformats.display import terminal_pictures
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"


def test_head(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("head", PHOTOS, "-n", 1, "--images").out == run("head", PHOTOS, "-n", 1).out
    assert run("head", PHOTOS, "--images", "--json").code == 2
    shown = [f"[{n}]" for n in range(3)]
    monkeypatch.setattr(terminal_pictures, "terminal_pictures", lambda _: lambda value: shown.pop() if value else None)
    assert run("head", PHOTOS, "-n", 1, "--images", "--fields", "image").out.endswith("bytes\n[2]\n")
