"""The program: its commands, and how their errors are printed."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn

import click

from dataformats.cli.completion import completion
from dataformats.cli.doctor import version
from dataformats.cli.exit_codes import INTERRUPTED, USAGE, exit_code, in_lines
from dataformats.cli.usage import Command, CommandGroup
from dataformats.cli.warning_lines import warnings_in_one_line
from dataformats.display.text import escape_text

DEBUG = "DATAFORMATS_DEBUG"

COMMANDS: dict[str, tuple[str, ...]] = {
    "info": (
        "dataformats info 'digits-*.tfrecord'",
        "dataformats info photos.tfrecord --json",
    ),
    "head": (
        "dataformats head photos.tfrecord -n 2 --fields name,image",
        "dataformats head photos.tfrecord --images",
        "dataformats head 'digits-*.tfrecord' --spec image=uint8[8,8] --spec label=int64",
    ),
    "schema": ("dataformats schema photos.tfrecord", "dataformats schema 'digits-*.tfrecord' --json"),
    "view": (
        "dataformats view photos.tfrecord",
        "dataformats view 'digits-*.tfrecord' --spec image=uint8[8,8] --spec label=int64 --port 8080",
        "dataformats view photos.tfrecord --against photos.ffr",
        "dataformats view photos.tfrecord --export card",
    ),
    "cat": (
        "dataformats cat photos.tfrecord --fields name,width --limit 3",
        "dataformats cat 'digits-*.tfrecord' --fields label",
    ),
    "sample": (
        "dataformats sample photos.tfrecord -n 3 --seed 7 --fields name,width",
        "dataformats sample 'digits-*.tfrecord' -n 2 --json",
    ),
    "stats": (
        "dataformats stats photos.tfrecord --largest 3",
        "dataformats stats 'digits-*.tfrecord' --fields label",
    ),
    "trace": (
        "dataformats trace state.json --data 'digits-*.tfrecord'",
        "dataformats trace state.json --data 'digits-*.tfrecord' --step 12:14 --fields label --jsonl",
    ),
    "bench": (
        "dataformats bench photos.tfrecord --seconds 0.1",
        "dataformats bench 'digits-*.tfrecord' --batch-size 256 --seconds 0.1 --json",
    ),
    "verify": (
        "dataformats verify 'digits-*.tfrecord'",
        "dataformats verify photos.tfrecord --json",
        "dataformats convert photos.tfrecord photos.ffr",
        "dataformats verify photos.ffr --against photos.tfrecord",
    ),
    "diff": (
        "dataformats convert photos.tfrecord photos.ffr",
        "dataformats diff photos.tfrecord photos.ffr",
        "dataformats diff photos.tfrecord photos.ffr --fields name,width --limit 10",
    ),
    "index": (
        "dataformats index 'digits-*.tfrecord' --full",
        "dataformats index photos.tfrecord --text",
    ),
    "convert": (
        "dataformats convert photos.tfrecord photos.ffr",
        "dataformats convert 'digits-*.tfrecord' digits --format ffrecord --shard-records 1000",
        "dataformats convert 'digits-*.tfrecord' digits.tfrecord.gz",
        "dataformats convert photos.tfrecord photos --format granular --spec image=jpg --spec name=utf8",
        "dataformats convert photos.tfrecord names.syr --fields name,width --rename name=title",
        "dataformats convert 'digits-*.tfrecord' sample --format tfrecord --shuffle-seed 7 --limit 500"
        " --shard-records 100",
        "dataformats convert 'digits-*.tfrecord' sample --format tfrecord --shuffle-seed 7 --limit 500"
        " --shard-records 100 --resume",
    ),
    "repair": (
        "dataformats repair photos.tfrecord repaired.tfrecord --dry-run",
        "dataformats repair photos.tfrecord repaired.tfrecord",
        "dataformats repair 'digits-*.tfrecord' repaired",
    ),
    "merge": (
        "dataformats merge 'digits-*.tfrecord' digits.tfrecord",
        "dataformats merge 'digits-*.tfrecord' digits --shards 2",
    ),
    "split": (
        "dataformats split photos.tfrecord shards --shards 4",
        "dataformats split photos.tfrecord thousands --shard-records 1000",
        "dataformats split photos.tfrecord train.tfrecord test.tfrecord --fraction 0.8 --seed 0",
        "dataformats split photos.tfrecord wide.tfrecord narrow.tfrecord --where 'width > height'",
    ),
    "doctor": ("dataformats doctor 'digits-*.tfrecord'", "dataformats doctor", "dataformats doctor --json"),
}
"""Each command, which the module of its name has, with the examples in its help."""


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Exit codes: 0 success, 1 a finding (such as a damaged record), 2 a usage error, 3 a bug in this program.",
)
@click.version_option(version(), message="%(version)s", help="Print the version.")
@click.option("--debug", is_flag=True, envvar=DEBUG, show_envvar=True, help="Show the traceback of an error.")
@click.option("--install-completion", is_flag=True, help="Install completion for the shell in SHELL.")
@click.option("--show-completion", is_flag=True, help="Print the script of completion for the shell in SHELL.")
@click.pass_context
def app(context: click.Context, debug: bool, install_completion: bool, show_completion: bool) -> None:
    """Inspect, check and convert record files."""
    if debug:
        os.environ[DEBUG] = "1"
    if install_completion or show_completion:
        completion(context.command, install=install_completion)
        raise SystemExit(0)
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise SystemExit(USAGE)


def _epilog(examples: Sequence[str]) -> str:
    return "\b\n" + "\n".join(["Example:" if len(examples) == 1 else "Examples:", *(f"  {line}" for line in examples)])


for _name, _examples in COMMANDS.items():
    _command = getattr(importlib.import_module(f"dataformats.cli.{_name}"), _name)
    app.command(_name, cls=Command, epilog=_epilog(_examples))(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    Args:
        arguments: The arguments after the program's name; `None` takes `sys.argv[1:]`.
    """
    _prepare_streams()
    given = None if arguments is None else list(arguments)
    try:
        with warnings_in_one_line():
            app.main(given, prog_name="dataformats", standalone_mode=False)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except Exception as error:  # the last place that can print it as one line
        sys.exit(_explain(error))
    sys.exit(0)


def _prepare_streams() -> None:
    # Names in data and of files may not fit the encoding of a terminal.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: Exception) -> int:
    """Print an error, in one line if possible; return the exit code."""
    code, text = exit_code(error), f"dataformats: {in_lines(error)}"
    if isinstance(error, click.UsageError):
        name = "dataformats" if error.ctx is None else error.ctx.command_path
        hint = getattr(error, "param_hint", None)
        place = f"{hint}: " if hint else ""
        code, text = USAGE, f"{name}: {escape_text(place + error.message).rstrip('.')}. See {name} --help"
    with suppress(OSError):  # a full disk or a closed pipe does not change the exit code
        if os.environ.get(DEBUG) == "1":
            traceback.print_exception(error)
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    return code
