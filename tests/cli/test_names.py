"""Names and payloads that look like remedies, templates, options, markup or control codes, in every command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
NAMES = {
    "a dict": "rename={1}",
    "nested minus": "rename={" + "-" * 2000 + "1}",
    "a short one": "rename={---1}",
    "braces": "{}{0}{format}{x!r:>99999999}}{",
    "percent": "%s%d%n",
    "escapes": "\x1b[2J\x1b[31m\x9b31m\x07",
    "lines": "a\nb\r\nc\u2028d",
    "markup": "[bold]x[/bold][/] <b>&amp;",
    "arguments": "spec={'a': 1}, overwrite=True",
    "a remedy": "Pass {format} if that is intended.",
    "an option": "--format",
    "quotes": "'\"`$(id)\\",
    "no text": "\udcff\ud800",
    "backwards": "\u202e\u200b",
    "long": "rename={1}" * 2000,
}
IN_FILE_NAMES = {key: name.replace("/", "|") for key, name in NAMES.items() if len(name) < 200 and key != "no text"}
COMMANDS = (("info",), ("info", "--json"), ("head",), ("head", "--json"), ("verify",), ("verify", "--json"), ("index",))


def check(run: Run, *arguments: object) -> int:
    """Run a command; it must end as documented, and print nothing that a terminal obeys."""
    result = run(*arguments)
    assert result.code in (0, 1, 2), (arguments, result)
    assert "a bug" not in result.err
    assert (result.out + result.err).replace("\n", "").isprintable()
    return result.code


@loop_over("name", IN_FILE_NAMES.values())
@loop_over("content", [PHOTOS.read_bytes(), DAMAGED.read_bytes()])
def test_names_of_files(run: Run, tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / f"{name}.tfrecord"
    path.write_bytes(content)
    for command, *options in COMMANDS:
        for place in (path, folder):
            check(run, command, *options, "--", place)
    check(run, "convert", path, folder / f"{name}.ffr")
    check(run, "convert", path, folder / f"{name}.ffr")  # exists, if the file is sound
    check(run, "convert", path, folder / name)  # has no suffix


@loop_over("name", NAMES.values())
def test_names_of_fields(run: Run, tmp_path: Path, name: str) -> None:
    if "\ud800" not in name:
        with dataformats.create(tmp_path / "a.ffr", "ffrecord", spec={name: "int64"}) as writer:
            writer.append({name: 7})
    for options in (("--spec", f"{name}=int64"), ("--spec", f"{name}=jpg"), ("--spec", f"{name}={name}"), ()):
        for command, *more in COMMANDS[:-1]:
            check(run, command, *more, *options, tmp_path / "a.ffr")
    check(run, "head", tmp_path / "a.ffr", f"--fields={name}")
    for target in ("b.syr", "b.ofrecord", "b.tfrecord"):
        check(run, "convert", tmp_path / "a.ffr", tmp_path / target)
        check(run, "convert", tmp_path / "a.ffr", tmp_path / target, "--rename", f"{name}={name}{name}")
    check(run, "convert", tmp_path / "a.ffr", tmp_path / "bags", "--format", "granular")


@pytest.mark.parametrize("payload", ["json", "utf8", "pickle"])
@loop_over("name", NAMES.values())
def test_payloads(run: Run, tmp_path: Path, name: str, payload: str) -> None:
    text = name.encode("utf-8", "replace").decode("utf-8")
    value = text if payload == "utf8" else {text: [text, {text: text}]}
    with dataformats.create(tmp_path / "a.ffr", "ffrecord", payload=payload) as writer:
        writer.append(value)
    for other in ((), ("--payload", payload), ("--payload", "example"), ("--payload", "npy"), ("--payload", name)):
        for command, *options in COMMANDS[:-1]:
            check(run, command, *options, *other, tmp_path / "a.ffr")


@loop_over("name", NAMES.values())
def test_types_in_files(run: Run, tmp_path: Path, name: str) -> None:
    """A file may name a type that no codec decodes: its name is shown."""
    shutil.copytree(GOLDEN / "granular" / "v3" / "resume_complete", tmp_path / "v3")
    spec = json.loads((tmp_path / "v3" / "spec.json").read_text())
    (tmp_path / "v3" / "spec.json").write_text(json.dumps({**spec, next(iter(spec)): name}))
    for command, *options in COMMANDS[:-1]:
        check(run, command, *options, tmp_path / "v3")


@loop_over("name", NAMES.values())
def test_values_of_options(run: Run, tmp_path: Path, name: str) -> None:
    for option in ("--format", "--payload", "--fields", "-n"):
        assert check(run, "head", PHOTOS, option, name) == 2
    check(run, "head", PHOTOS, "--spec", name)  # some are a field and a type
    for option in ("--from-format", "--from-payload", "--rename", "--shard-records", "--compression"):
        assert check(run, "convert", PHOTOS, tmp_path / "x.ffr", option, name) == 2
    assert check(run, name) == 2
