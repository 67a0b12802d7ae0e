"""`--where` means the same in all commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

DIGITS = f"{GOLDEN}/real/digits-*.tfrecord"
EIGHTS = 174


@pytest.fixture(params=["label = 8", "rules_of_mine:is_eight", "eights.npy"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules_of_mine.py").write_text("def is_eight(record):\n    return record['label'] == 8\n")
    if request.param == "eights.npy":
        import dataformats

        np.save("eights.npy", [record["label"] == 8 for record in dataformats.open(DIGITS)])
    return str(request.param)


def test_copying_commands_apply_where(run: Run, where: str) -> None:
    facts = run("split", DIGITS, "a.tfrecord", "--where", where, "--rest-path", "b.tfrecord").facts
    assert facts == {"a.tfrecord": f"{EIGHTS} records", "b.tfrecord": f"{1797 - EIGHTS} records"}
    options = ("--where", where, "--shard-records", 100)
    assert run("convert", DIGITS, "c", "--format", "tfrecord", *options).facts["records"] == str(EIGHTS)
    assert run("verify", "c", "--against", DIGITS, "--where", where).facts["findings"] == "0"
    for part in (("--part", "0/2"), ("--part", "1/2"), ("--publish-parts",)):
        result = run("convert", DIGITS, "d", "--format", "tfrecord", *options, *part)
        assert result.code == 0, result.err
    assert run("verify", "d", "--against", "c").facts["findings"] == "0"


def test_plan_keeps_the_text(run: Run, tmp_path: Path) -> None:
    options = ("convert", DIGITS, tmp_path / "x", "--format", "tfrecord", "--shard-records", 50, "--part")
    assert run(*options, "0/2", "--where", "label = 8").code == 0
    other = run(*options, "1/2", "--where", "label = 7")
    assert other.code == 2
    assert "label = 7" in other.err
    assert "label = 8" in other.err


@loop_over(
    "where, found",
    [
        ("labl = 8", "unknown field 'labl' (nearest: label)"),
        ("label = ", "the condition 'label = ' does not parse"),
        ("label > [1]", "the condition 'label > [1]' calls list_value"),
        ("label", "has the type BIGINT"),
        ("image::int = 8", "the condition"),
        ("\x1b[31m = 8", "does not parse"),
        ("no.module:function", "No module named 'no'"),
    ],
)
@loop_over("command", [("convert", DIGITS, "x.ffr"), ("verify", DIGITS, "--against", DIGITS)])
def test_errors(run: Run, command: tuple[str, ...], where: str, found: str) -> None:
    result = run(*command, "--where", where)
    assert (result.code, result.out) == (2, "")
    assert found in result.err
    assert len(result.err.splitlines()) == 1
