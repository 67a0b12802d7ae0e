"""`cat`, `sample` and `head --where`: which records are printed, and how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.display.json_values import as_json
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS = f"{GOLDEN}/real/digits-*.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
EVERY_FILE = ("real/photos.tfrecord", "real/digits-00000-of-00003.tfrecord", "ffrecord/base.ffr", "syrah", "granular")
HOSTILE = ["\x1b[31mred\x1b]0;title\x07", "two\nlines\r\u2028", "\u202e", "\x9b31m", "<script>", "\0", '"\\']


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n")[:-1]]


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shown_rules.py").write_text(
        "def is_eight(record):\n    return record['label'] == 8\ndef fails(record):\n    return record['nothing']\n"
    )
    return "shown_rules:is_eight"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with columns of all kinds."""
    path = tmp_path_factory.mktemp("mixed") / "x.ffr"
    floats = [0.5, float("nan"), float("inf")]
    spec = {
        "f": "float32",
        "n": "int64?",
        "fs": "float32[]",
        "t": "utf8",
        "ts": "utf8[]",
        "b": "bytes?",
        "m": "int64[2,2]",
    }
    with dataformats.create(path, spec=spec) as writer:
        for i in range(40):
            record = {"f": floats[i % 3], "fs": np.array(floats[: i % 4]), "t": HOSTILE[i % 7], "ts": HOSTILE[: i % 5]}
            record |= {"m": np.full((2, 2), i)} | ({"n": i} if i % 2 else {"b": bytes([i])})
            writer.append(record)
    return path


def test_cat_prints_records_as_json_lines(run: Run, mixed: Path) -> None:
    for path in [mixed, GOLDEN / "real" / "photos.tfrecord", GOLDEN / "ffrecord" / "base.ffr"]:
        result = run("cat", path, "--jsonl")
        assert (result.code, result.err) == (0, "")
        assert result.out.isascii()
        assert not any(character in result.out for character in "\x1b\r\0\x07")
        with dataformats.open(path) as source:
            raw = source.with_spec(
                {name: kind if kind.codec != "jpg" else "bytes" for name, kind in source.spec.items()}
            )
            assert lines(result.out) == [json.loads(json.dumps(as_json(record))) for record in raw]


def test_cat_selects(run: Run, rules: str) -> None:
    eights = [record["label"] == 8 for record in dataformats.open(DIGITS)]
    assert lines(run("cat", DIGITS, "--fields", "label", "--where", rules).out) == [{"label": 8}] * sum(eights)
    assert lines(run("cat", DIGITS, "--fields", "label", "--where", rules, "--limit", 3).out) == [{"label": 8}] * 3
    assert len(lines(run("cat", DIGITS, "--limit", 1000).out)) == 1000
    assert run("cat", DIGITS, "--limit", 0).out == ""
    assert len(lines(run("cat", DIGITS, "--fields", "label", "--limit", 10**30).out)) == 1797
    np.save("mask.npy", eights)
    assert len(lines(run("cat", DIGITS, "--where", "mask.npy").out)) == sum(eights)
    for where, found in [("shown_rules:fails", "raised KeyError"), ("missing.npy", "no such file"), ("x:", "")]:
        result = run("cat", DIGITS, "--where", where)
        assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
        assert found in result.err


@pytest.mark.parametrize("command", ["cat", "sample"])
def test_damaged_records_are_reported(run: Run, command: str) -> None:
    result = run(command, DAMAGED, *(() if command == "cat" else ("-n", 6)))
    assert result.code == 1
    assert len(result.out.splitlines()) == 5
    (line,) = result.err.splitlines()
    assert line.startswith("dataformats: record 3 of ")


def test_cat_reports_records_with_wrong_types(run: Run, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.ffr", spec={"a": "int64[]"}) as writer:
        writer.extend([{"a": [i] if i % 50 else [i, i]} for i in range(120)])
    result = run("cat", tmp_path / "x.ffr", "--spec", "a=int64")
    assert result.code == 1
    assert lines(result.out) == [{"a": i} for i in range(120) if i % 50]
    assert [line.split()[2] for line in result.err.splitlines()] == ["0", "50", "100"]


def test_sample_draws_the_records_of_shuffled_convert(run: Run, tmp_path: Path, rules: str) -> None:
    result = run("sample", DIGITS, "-n", 20, "--seed", 7, "--json")
    assert run("convert", DIGITS, tmp_path / "x.ffr", "--shuffle-seed", 7, "--limit", 20).code == 0
    with dataformats.open(tmp_path / "x.ffr") as source:
        assert [record["label"] for record in result.json["records"]] == [record["label"] for record in source]
    digits = dataformats.open(DIGITS)
    assert [digits[number]["label"] for number in result.json["indices"]] == [
        r["label"] for r in result.json["records"]
    ]
    assert run("sample", DIGITS, "-n", 20, "--seed", 8, "--json").json["indices"] != result.json["indices"]
    every = run("sample", DIGITS, "-n", 5000, "--fields", "label", "--json").json["indices"]
    assert sorted(every) == [*range(1797)]
    eights = run("sample", DIGITS, "-n", 10, "--where", rules, "--json").json
    assert {record["label"] for record in eights["records"]} == {8}
    assert len(set(eights["indices"])) == 10
    others = run("sample", DIGITS, "-n", 10, "--seed", 1, "--where", rules, "--json").json
    assert others["indices"] != eights["indices"]
    assert run("sample", DIGITS, "-n", 0).out == ""


def test_sample_reads_only_its_records(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataformats.reading.views import SelectView

    asked: list[int] = []
    read = SelectView.read

    def watched(self: Any, indices: Any, *arguments: Any, **options: Any) -> Any:
        asked.extend(np.asarray(indices).tolist())
        return read(self, indices, *arguments, **options)

    monkeypatch.setattr(SelectView, "read", watched)
    shown = run("sample", DIGITS, "-n", 3, "--fields", "label", "--json").json
    assert asked == shown["indices"]


def test_head_shows_the_first_matching_records(run: Run, rules: str) -> None:
    shown = run("head", DIGITS, "-n", 3, "--fields", "label", "--where", rules)
    assert shown.out.splitlines() == ["record 8", "  label: 8", "record 18", "  label: 8", "record 28", "  label: 8"]
    assert run("head", DAMAGED, "--where", rules, "--json").code == 2


@loop_over("command", ["cat", "sample", "head"])
def test_hostile_values(run: Run, command: str, tmp_path: Path) -> None:
    record = {HOSTILE[0]: HOSTILE, "\ud800": "\ud800", "long": "é" * 2**20}
    with dataformats.create(tmp_path / "x.ffr", payload="bytes") as writer:
        writer.append(json.dumps(record).encode())
    result = run(command, tmp_path / "x.ffr", "--payload", "json")
    assert (result.code, result.err, len(result.out.splitlines())) == (0, "", 1)
    assert result.out[:-1].isprintable()
    assert command != "cat" or lines(result.out) == [record]


@loop_over("command", ["cat", "sample", "head"])
def test_hostile_names(run: Run, command: str, tmp_path: Path) -> None:
    names = [*(f"f{i}" for i in range(2000)), *HOSTILE]
    with dataformats.create(tmp_path / "x.ffr", spec=dict.fromkeys(names, "int64")) as writer:
        writer.append(dict.fromkeys(names, 1))
    result = run(command, tmp_path / "x.ffr")
    assert (result.code, result.err, len(result.out.splitlines())) == (0, "", 1 if command == "cat" else 2008)
    assert all(line.isprintable() for line in result.out.split("\n"))
