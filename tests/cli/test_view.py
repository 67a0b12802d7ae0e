"""dataformats view: data cards, and options that exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"


def test_export_writes_a_card(run: Run, tmp_path: Path) -> None:
    result = run("view", PHOTOS, "--export", tmp_path / "new" / "card", "--records", 3)
    assert (result.code, result.facts) == (0, {"card": str(tmp_path / "new" / "card" / "index.html")})
    assert (tmp_path / "new" / "card" / "index.html").read_text("utf-8").count("<img ") == 3
    again = run("view", PHOTOS, "--export", tmp_path / "new" / "card")
    assert (again.code, "exists. Give the folder of the card a new name" in again.err) == (2, True)
    damaged = run("view", DAMAGED, "--export", tmp_path / "damaged")
    assert (damaged.code, damaged.facts["damaged records"]) == (1, "1")


@loop_over(
    "options, message",
    [
        (("--export", "s3://bucket/card"), "expected a folder on this machine, found a URL"),
        (("--export", "card", "--against", PHOTOS), "--export: takes no --against or --state"),
        (("--records", 3), "--records: takes --export"),
        (("--step", 3), "--step: takes --state"),
        (("--against", PHOTOS, "--state", "state.json"), "--against: takes no --state"),
    ],
)
def test_options_exclude_each_other(run: Run, options: tuple[object, ...], message: str) -> None:
    result = run("view", PHOTOS, *options)
    assert (result.code, message in result.err) == (2, True), result.err


@loop_over("token", ["short-of-sixteen"[:-1], "a" * 15 + "/", "with spaces and more", "é" * 16, "..%2f" * 4])
@loop_over("by_option", [True, False])
def test_unfit_tokens_are_refused(run: Run, token: str, by_option: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not by_option:
        monkeypatch.setenv("DATAFORMATS_TOKEN", token)
    result = run("view", f"{GOLDEN}/real/photos.tfrecord", "--no-browser", *(("--token", token) if by_option else ()))
    assert result.code == 2
    assert f"found {len(token)} characters" in result.err
    assert token not in result.out + result.err
