"""dataformats verify --against: facts, JSON, exit codes, usage errors, and the rate in the progress bar."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest

import dataformats
from dataformats.cli.progress import bar
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS, PHOTOS = str(GOLDEN / "real" / "digits-*.tfrecord"), str(GOLDEN / "real" / "photos.tfrecord")


def test_equal_records(run: Run, tmp_path: Path) -> None:
    assert run("convert", PHOTOS, tmp_path / "photos.ffr").code == 0
    result = run("verify", tmp_path / "photos.ffr", "--against", PHOTOS)
    assert (result.code, result.err) == (0, "")
    assert (result.facts["against"], result.facts["records"], result.facts["findings"]) == (PHOTOS, "12", "0")
    listed = [f"--against={path}" for path in dataformats.open(DIGITS).paths]
    assert len(run("verify", PHOTOS, *listed, "--json").json["findings"]) > 1


def test_differences(run: Run, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "names.syr", "syrah", spec={"title": "utf8", "width": "int64"}) as writer:
        writer.extend({"title": record["name"].decode(), "width": 320} for record in dataformats.open(PHOTOS))
    options = ("--against", PHOTOS, "--fields", "name,width", "--rename", "name=title")
    result = run("verify", tmp_path / "names.syr", *options)
    assert result.code == 1
    widths = [record["width"] for record in dataformats.open(PHOTOS)]
    wrong = [index for index, width in enumerate(widths) if width != 320]
    place = f"record {wrong[0]} of '{tmp_path / 'names.syr'}', field 'width'"
    assert f"finding: Difference: {place}: expected {widths[wrong[0]]}, found 320\n" in result.out
    assert result.facts["differences in width"] == f"{len(wrong)} record{'s'[: len(wrong) - 1]}"
    as_json = run("verify", tmp_path / "names.syr", *options, "--json")
    assert (as_json.code, as_json.json["differences"]) == (1, {"width": len(wrong)})
    assert run("verify", tmp_path / "names.syr", *options[:2], "--fields", "name", *options[4:]).code == 0


def test_remedies_name_options(run: Run, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.ffr", "ffrecord", spec={"n": "int8"}) as writer:
        writer.append({"n": 5})
    with dataformats.create(tmp_path / "b", "granular", spec={"n": "int16", "m": "int8"}) as writer:
        writer.append({"n": 5, "m": 0})
    result = run("verify", tmp_path / "a.ffr", "--against", tmp_path / "b")
    assert "expected int16 5, found int8 5. If that was intended, pass --from-spec with the new type" in result.out
    assert "field 'm': expected this field of the source, found none. Pass --fields or --rename" in result.out


@loop_over(
    "options, said",
    [
        (
            ("--rename", "name=title"),
            "--shuffle-seed, --limit and --from-option need --against",
        ),
        (("--against", "no-such-file.tfrecord"), "no-such-file"),
        (("--against", PHOTOS, "--fields", "imge"), "nearest: image"),
        (("--against", PHOTOS, "--rename", "name"), "expected OLD=NEW"),
        (("--against", PHOTOS, "--from-format", "ofrecrod"), "--from-format"),
    ],
)
def test_usage_errors(run: Run, options: tuple[str, ...], said: str) -> None:
    result = run("verify", PHOTOS, *options)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("dataformats.cli.progress._SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    with bar("verifying") as report:
        assert report is not None
        for done in range(10, 101, 10):
            report(done, 100)
    shown = terminal.getvalue()
    assert "verifying: 100%" in shown
    assert "100/100" in shown
    assert " records/s" in shown
