"""Usage errors: each is one sentence of this package, with the option, what it takes, and what was found."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from dataformats.cli.app import COMMANDS, app
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"
FOREIGN = (
    "Input should",
    "Invalid value",
    "No such",
    "Missing",
    "unexpected",
    "requires",
    "Value error",
    "Did you mean",
)
SENTENCES = {
    "head x -n 1.5": "head: -n: expected a whole number, at least 0, found '1.5'",
    "head x --limit -1": "head: --limit: expected a whole number, at least 0, found '-1'",
    "head x -n": "head: -n: expected a whole number, at least 0, found nothing",
    "view x --port 70000": "view: --port: expected a whole number from 0 to 65535, found '70000'",
    "bench x --seconds no": "bench: --seconds: expected a number from 0.01 to 3600, found 'no'",
    "convert x y --on-corrupt no": "convert: --on-corrupt: expected 'raise' or 'omit', found 'no'",
    "head": "head: PATH: expected files, a folder, a URL or a quoted glob, found nothing",
    "trace x": "trace: --data: expected PATH, found nothing",
    "convert x": "convert: DESTINATION: expected a new file or folder behind 'x', found nothing",
    "diff x y z a": "diff: expected A and B alone, found 'z a'",
    "doctor --format npy": "doctor: PATH: expected a dataset, to which the options belong, found none",
    "head x --jsno": "head: unknown option '--jsno' (nearest: --json",
    "head x --json=3": "head: --json: expected no value, found '3'",
    "--json": "unknown option '--json' (nearest: --version)",
    "inf x": "unknown command 'inf' (nearest: info)",
    f"convert {PHOTOS} x.ffr --shard-records {2**63}": "convert: --shard-records: expected a whole number in [1,",
    "head x --json --images": "head: --json, --images: expected one of them, found 2",
    "head x --spec a": "head: --spec: expected FIELD=TYPE, such as label=int64, or JSON, found 'a'",
    "head x --spec {a": "head: --spec: expected a JSON object of strings, found no JSON at character 2",
    "head x --option a": "head: --option: expected NAME=VALUE, such as window=1024, found 'a'",
    f"trace {PHOTOS} --data {PHOTOS}": "trace: STATE: expected a JSON document, found other bytes",
}


@loop_over("arguments", SENTENCES)
def test_sentences(run: Run, arguments: str) -> None:
    result = run(*arguments.split())
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    command = SENTENCES[arguments]
    assert result.err.startswith(f"dataformats {command}" if ":" in command.split()[0] else f"dataformats: {command}")
    assert result.err.rstrip().endswith(" --help")


@loop_over("command", [*COMMANDS])
def test_every_option_refuses_in_these_sentences(run: Run, command: str) -> None:
    for option in app.commands[command].get_params(click.Context(app.commands[command])):
        if not isinstance(option, click.Option):
            continue
        name = option.opts[-1]
        result = run(command, "x", f"{name}=\x1b" if option.is_flag else name)
        assert result.code == 2
        found = r"'\x1b'" if option.is_flag else "nothing"
        assert result.err.startswith(f"dataformats {command}: {name}: expected ")
        assert f", found {found}. See" in result.err
        assert not any(text in result.err for text in FOREIGN)


def test_environment_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_DEBUG", "perhaps")
    assert "--debug: expected 1 or 0, found 'perhaps'" in run("info", PHOTOS).err


def test_fields_behind_a_path_are_answered_with_the_command(run: Run) -> None:
    result = run("stats", PHOTOS, "width", "--largest", "2", "height")
    assert "expected files, found no 'width'" in result.err
    assert f"run dataformats stats {PHOTOS} --largest 2 --fields width,height. See" in result.err
    assert "--fields" not in run("stats", "width").err
    assert "--fields" not in run("info", PHOTOS, "width").err


def test_options_of_formats(run: Run, tmp_path: Path) -> None:
    tokens = GOLDEN / "tokens" / "train.bin"
    options = ("--option", "dtype=uint16", "--option", "window=4")
    assert run("head", tokens, "--format", "tokens", *options, "-n", 1, "--jsonl").json == {"tokens": [0, 37, 74, 111]}
    refused = run("head", tokens, "--format", "tokens", "--option", "windows=4")
    assert refused.code == 2
    assert "--option: unknown option: expected an argument of open() or an option of tokens" in refused.err
    given = ("--from-format", "tokens", "--from-option", "dtype=uint16", "--from-option", "window=-4")
    refused = run("convert", tokens, tmp_path / "x.ffr", *given)
    assert (refused.code, "--from-option: window: expected" in refused.err) == (2, True)
