"""dataformats convert: selection, functions of the user, records that fail, interruptions, processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dataformats
from dataformats.cli import convert as command
from dataformats.storage.threads import N_THREADS
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS, PHOTOS = str(GOLDEN / "real" / "digits-00000-of-00003.tfrecord"), str(GOLDEN / "real" / "photos.tfrecord")
DAMAGED = str(GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord")

FUNCTIONS = """
class Labels:
    @staticmethod
    def is_eight(record):
        return record["label"] == 8

def as_text(record):
    return {"image": record["image"], "label": str(record["label"])}

def fails(record):
    return record["no_such_field"]

calls = 0

def interrupts_once(record):
    global calls
    calls += 1
    if calls == 100:
        raise KeyboardInterrupt
    return record

NUMBER = 5
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current folder."""
    (tmp_path / "functions_of_mine.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "functions_of_mine"
    sys.modules.pop("functions_of_mine", None)


def test_selection(run: Run, functions: str) -> None:
    options = ("--where", f"{functions}:Labels.is_eight", "--shuffle-seed", 7, "--limit", 20)
    result = run("convert", DIGITS, "eights.ffr", *options)
    assert (result.code, result.facts["records"], result.facts["files"]) == (0, "20", "1")
    assert {record["label"] for record in dataformats.open("eights.ffr")} == {8}
    assert run("verify", "eights.ffr", "--against", DIGITS, *options).facts["findings"] == "0"
    assert run("verify", "eights.ffr", "--against", DIGITS, *options[:4]).code == 1


def test_a_function_of_each_record(run: Run, functions: str) -> None:
    spec = ("--spec", "image=bytes", "--spec", "label=utf8")
    assert run("convert", DIGITS, "texts.syr", "--map", f"{functions}:as_text", *spec, "--limit", 3).code == 0
    assert [record["label"] for record in dataformats.open("texts.syr")] == ["0", "1", "2"]


@loop_over(
    "option, said",
    [
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("functions_of_mine:nix", "has no attribute 'nix'"),
        ("functions_of_mine:NUMBER", "expected a function, found int"),
        ("functions_of_mine:fails", "the function raised KeyError: 'no_such_field'"),
    ],
)
@loop_over("name", ["--where", "--map"])
def test_unusable_functions_are_named(run: Run, functions: str, name: str, option: str, said: str) -> None:
    result = run("convert", DIGITS, "x.ffr", name, option)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert name in result.err
    assert not Path("x.ffr").exists()


def test_omitted_records_are_a_finding(run: Run, tmp_path: Path) -> None:
    result = run("convert", DAMAGED, tmp_path / "x.ffr", "--on-corrupt", "omit")
    assert result.code == 1
    assert result.facts["omitted"] == "1 record"
    assert f"record 3 of '{DAMAGED}' at byte 368: " in result.facts["finding"]
    as_json = run("convert", DAMAGED, tmp_path / "y.ffr", "--on-corrupt", "omit", "--json")
    assert (as_json.code, as_json.json["omitted"]) == (1, 1)
    assert run("verify", tmp_path / "x.ffr", "--against", DAMAGED).facts["findings"] == "1"


def test_dry_run(run: Run, tmp_path: Path) -> None:
    result = run("convert", PHOTOS, tmp_path / "x.syr", "--dry-run")
    assert (result.code, result.facts["records"], result.facts["records would be"]) == (0, "12", "rewritten")
    assert run("convert", PHOTOS, tmp_path / "x.syr", "--dry-run", "--spec", "height=utf8").code == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_with_one_line_and_resumes(run: Run, functions: str) -> None:
    options = ("--shard-records", 50, "--limit", 150, "--workers", 0, "--map", f"{functions}:interrupts_once")
    result = run("convert", DIGITS, "digits", "--format", "ffrecord", *options)
    assert (result.code, result.out) == (130, "")
    assert result.err == "dataformats: interrupted; to continue, add --resume to the same command\n"
    resumed = run("convert", DIGITS, "digits", "--format", "ffrecord", *options, "--resume", "--no-verify")
    assert (resumed.code, resumed.facts["resumed"], resumed.facts["records"]) == (0, "50 records", "150")
    assert dataformats.verify("digits", against=dataformats.open(DIGITS)[:150]).ok


def test_an_interrupt_before_anything_was_written(run: Run, functions: str) -> None:
    result = run("convert", DIGITS, "x.ffr", "--where", f"{functions}:interrupts_once")
    assert (result.code, result.out, result.err) == (130, "", "dataformats: interrupted\n")


def test_parts_and_publish_parts(run: Run, tmp_path: Path) -> None:
    command = ("convert", DIGITS, tmp_path / "parts", "--format", "ffrecord", "--shard-records", 100)
    for number, records in ((0, "300"), (1, "299")):
        missing = run(*command, "--publish-parts")
        assert (missing.code, missing.out) == (2, "")
        result = run(*command, "--part", f"{number}/2", "--workers", 0)
        assert (result.code, result.facts["records"], result.facts["files"]) == (0, records, "3")
    assert "found 3. Run the parts 1/2 again with the same arguments, then publish the parts" in missing.err
    assert run(*command, "--publish-parts").facts["records"] == "599"
    assert dataformats.verify(tmp_path / "parts", against=DIGITS).ok


@loop_over(
    "options, said",
    [
        (("--part", "2/2"), "expected I/N, with I from 0 to N-1, found '2/2'"),
        (("--part", "0"), "expected I/N"),
        (("--part", "0/2", "--publish-parts"), "takes --part or --publish-parts, not both"),
        (
            ("--publish-parts", "--shard-bytes", 9),
            "--part and --publish-parts need --shard-records, without",
        ),
    ],
)
def test_wrong_parts(run: Run, options: tuple[object, ...], said: str, tmp_path: Path) -> None:
    result = run("convert", DIGITS, tmp_path / "x", "--format", "ffrecord", "--shard-records", 9, *options)
    assert result.code == 2
    assert said in result.err
    assert not list(tmp_path.iterdir())


def test_a_single_file_behind_a_url_is_not_resumed(run: Run) -> None:
    result = run("convert", DIGITS, "memory://bucket/x.ffr", "--resume")
    assert result.code == 2
    assert "a conversion to a URL resumes by shards" in result.err


def test_default_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command._default_workers(PHOTOS, {}) == 0
    monkeypatch.setattr(command, "_WORKER_BYTES", 1)
    assert command._default_workers(PHOTOS, {}) == (N_THREADS if N_THREADS > 1 else 0)


@pytest.mark.parametrize(
    ("options", "said"), [(["--address", "auto"], "needs --engine"), (["--engine", "ray", "--workers", "2"], "decides")]
)
def test_options_of_a_cluster(run: Run, options: list[str], said: str) -> None:
    for arguments in (("convert", DIGITS, "digits.ffr"), ("verify", DIGITS)):
        result = run(*arguments, *options)
        assert (result.code, result.out) == (2, "")
        assert said in result.err
