"""dataformats diff: facts, JSON and exit codes."""

from __future__ import annotations

from pathlib import Path

import dataformats
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = str(GOLDEN / "real" / "photos.tfrecord")


def test_equal_datasets(run: Run) -> None:
    result = run("diff", PHOTOS, PHOTOS)
    assert (result.code, result.err) == (0, "")
    assert result.facts == {"a": PHOTOS, "b": PHOTOS, "records": "12", "equal": "yes"}


def test_differences(run: Run, tmp_path: Path) -> None:
    name = "evil\x1b[31m\n"
    for path, value, n in (("a.ffr", "one\x1b[0m", 3), ("b.syr", "two\n", 2)):
        with dataformats.create(tmp_path / path, spec={name: "utf8"}) as writer:
            writer.extend({name: value} for _ in range(n))
    result = run("diff", tmp_path / "a.ffr", tmp_path / "b.syr")
    assert result.code == 1
    assert result.facts["records"] == "3 | 2"
    assert result.facts["record 0, field evil\\x1b[31m\\n"] == r"'one\x1b[0m' | 'two\n'"
    assert result.facts["differences in evil\\x1b[31m\\n"] == "2 records"
    as_json = run("diff", tmp_path / "a.ffr", tmp_path / "b.syr", "--limit", 1, "--json")
    assert (as_json.code, as_json.json["differences"], as_json.json["compared"]) == (1, {name: 1}, 1)


def test_one_is_longer(run: Run, tmp_path: Path) -> None:
    for path, n in (("a.ffr", 3), ("b.ffr", 2)):
        with dataformats.create(tmp_path / path, spec={"x": "int64"}) as writer:
            writer.extend({"x": 1} for _ in range(n))
    result = run("diff", tmp_path / "a.ffr", tmp_path / "b.ffr")
    assert (result.code, result.facts["differences"]) == (1, "none in the first 2 records")


def test_errors(run: Run, tmp_path: Path) -> None:
    assert run("diff", PHOTOS).code == 2
    assert run("diff", PHOTOS, tmp_path / "none.ffr").code == 2
    unknown = run("diff", PHOTOS, PHOTOS, "--fields", "widht")
    assert (unknown.code, "nearest: width" in unknown.err) == (2, True)


def test_long_names_are_cut(run: Run, tmp_path: Path) -> None:
    name = "n\x1b" * 10**6
    for path, value in (("a.ffr", 1), ("b.tfrecord", 2)):
        with dataformats.create(tmp_path / path, spec={name: "int64"}) as writer:
            writer.append({name: value})
    for command in (("info",), ("verify",), ("diff", tmp_path / "b.tfrecord")):
        assert len(run(*command, tmp_path / "a.ffr").out) < 60_000
    assert len(run("diff", tmp_path / "a.ffr", tmp_path / "b.tfrecord", "--json").json["findings"][0]["message"]) < 2100
