"""Options follow from signatures: every public parameter that a command line can hold has one, with its help."""

from __future__ import annotations

import inspect

import click

import dataformats
from dataformats.cli.app import app
from dataformats.cli.signatures import parameters
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"
RENDERED = ("convert", "diff", "merge", "repair", "split", "verify")
IN_PYTHON = {"codecs", "executor", "progress", "source_options", "storage_options"}
"""Parameters that take objects, or that other options give."""


@loop_over("name", RENDERED)
def test_every_parameter_has_an_option(name: str) -> None:
    function, command = getattr(dataformats, name), app.commands[name]
    options = {one.name: one for one in command.get_params(click.Context(command)) if isinstance(one, click.Option)}
    found = inspect.signature(function).parameters.values()
    named = [one for one in found if one.default is not one.empty and one.name not in IN_PYTHON]
    assert named
    for parameter in named:
        option = options[parameter.name]
        assert option.opts[-1 if parameter.name != "limit" else 0] == f"--{parameter.name.replace('_', '-')}"
        if isinstance(parameter.default, bool | str):
            assert option.default == parameter.default
        assert option.help
        assert not {"`", "None", "See "} & {*option.help, *option.help.split(), option.help[:4]}


@loop_over("name", RENDERED)
def test_signatures_are_read_without_imports(name: str) -> None:
    function = getattr(dataformats, name)
    read = parameters(f"{function.__module__}:{name}")
    found = inspect.signature(function).parameters
    assert [*read] == [one.name for one in found.values() if one.default is not one.empty]
    assert {key: one.default for key, one in read.items()} == {key: found[key].default for key in read}


def test_help_is_the_first_clause_with_options() -> None:
    help_of = {name: one.about for name, one in parameters("dataformats.converting:convert").items()}
    assert help_of["limit"] == "Number of records to convert, the first ones after --where and --shuffle-seed"
    assert help_of["format"] == "The new format, by default from the name of DESTINATION"
    assert help_of["shard_bytes"] == "Start a new file before one exceeds this many bytes"


@loop_over("given", [("limit", "1"), ("progress", "1"), ("source", "x"), ("codecs", "{}")])
def test_to_option_is_no_argument_of_convert(run: Run, given: tuple[str, str]) -> None:
    result = run("convert", PHOTOS, "x.ffr", "--to-option", "=".join(given))
    assert result.code == 2
    assert f"--to-option: expected an option of a format, found {given[0]!r}" in result.err


@loop_over(
    "options, said",
    [
        (("--to-option", "nix=1"), "--to-option: unknown option: expected an argument of create() or"),
        (
            ("--from-option", "nix=1", "--to-option", "records=1"),
            "--from-option: unknown option: expected an argument of",
        ),
        (("--from-option", "verify_checksums=yes"), "--from-option: verify_checksums: expected True or False"),
        (("--compression", "gzip"), "--compression: unknown option"),
    ],
)
def test_errors_of_the_function_name_options(run: Run, options: tuple[str, ...], said: str) -> None:
    result = run("convert", PHOTOS, "x.ffr", *options)
    assert result.code == 2
    assert said in result.err
