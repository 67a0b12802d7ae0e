"""The names of classes, as commands, notebooks and the viewer show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dataformats
from dataformats.viewer.card import card_html
from dataformats.viewer.dataset import ViewedDataset
from tests.cli.conftest import Run

NAMES = ["no", "yes"]
SPEC: dict[str, Any] = {"label": {"type": "int64", "class_names": NAMES}, "n": "int64"}


def test_names_are_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.ffr"
    with dataformats.create(path, spec=SPEC) as writer:
        writer.extend([{"label": label, "n": 3} for label in (1, 0, 1, 7)])
    for command in ("info", "schema", "stats"):
        assert run(command, path).facts["field label"] == "int64, 2 classes: no, yes"
    assert run("head", path).out.count("label: 1 (yes)\n") == 2
    assert "label: 7\n" in run("head", path).out
    assert "1 (yes) (2), 0 (no) (1), 7 (1)" in run("stats", path).out
    assert json.loads(run("info", path, "--json").out)["class_names"] == {"label": NAMES}
    spec = json.loads(run("schema", path, "--json").out)["arguments"]["spec"]
    source = dataformats.open(path, spec=spec)
    assert source.spec["label"].class_names == tuple(NAMES)
    assert "label  int64, 2 classes: no, yes" in repr(source)
    assert "1 (yes)" in source.view(2).html
    assert card_html(ViewedDataset(path), 2)[0].count("1 (yes)") == 2
