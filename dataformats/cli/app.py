"""The program: its commands, and how their errors are printed."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from dataformats.cli.bench import bench
from dataformats.cli.cat import cat
from dataformats.cli.convert import convert
from dataformats.cli.diff import diff
from dataformats.cli.exit_codes import BROKEN_PIPE, INTERRUPTED, USAGE, exit_code, in_lines
from dataformats.cli.head import head
from dataformats.cli.index import index
from dataformats.cli.info import info
from dataformats.cli.installation import version
from dataformats.cli.merge import merge
from dataformats.cli.repair import repair
from dataformats.cli.sample import sample
from dataformats.cli.schema import schema
from dataformats.cli.split import split
from dataformats.cli.stats import stats
from dataformats.cli.trace import trace
from dataformats.cli.verify import verify
from dataformats.cli.view import view
from dataformats.cli.warning_lines import warnings_in_one_line
from dataformats.display.text import escape_text

__all__ = ["COMMANDS", "app", "main"]

DEBUG = "DATAFORMATS_DEBUG"
_UsageError: Any = typer.BadParameter.__mro__[1]  # UsageError, which typer does not export

COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {
    info: (
        "dataformats info 'digits-*.tfrecord'",
        "dataformats info photos.tfrecord --json",
        "dataformats info --build",
    ),
    head: (
        "dataformats head photos.tfrecord -n 2 --fields name,image",
        "dataformats head photos.tfrecord --images",
        "dataformats head 'digits-*.tfrecord' --spec image=uint8[8,8] --spec label=int64",
    ),
    schema: ("dataformats schema photos.tfrecord", "dataformats schema 'digits-*.tfrecord' --json"),
    view: (
        "dataformats view photos.tfrecord",
        "dataformats view 'digits-*.tfrecord' --spec image=uint8[8,8] --spec label=int64 --port 8080",
    ),
    cat: (
        "dataformats cat photos.tfrecord --fields name,width --limit 3",
        "dataformats cat 'digits-*.tfrecord' --fields label",
    ),
    sample: (
        "dataformats sample photos.tfrecord -n 3 --seed 7 --fields name,width",
        "dataformats sample 'digits-*.tfrecord' -n 2 --json",
    ),
    stats: (
        "dataformats stats photos.tfrecord --largest 3",
        "dataformats stats 'digits-*.tfrecord' --fields label",
    ),
    trace: (
        "dataformats trace state.json --data 'digits-*.tfrecord'",
        "dataformats trace state.json --data 'digits-*.tfrecord' --step 12:14 --fields label --jsonl",
    ),
    bench: (
        "dataformats bench photos.tfrecord --seconds 0.1",
        "dataformats bench 'digits-*.tfrecord' --batch-size 256 --seconds 0.1 --json",
    ),
    verify: (
        "dataformats verify 'digits-*.tfrecord'",
        "dataformats verify photos.tfrecord --json",
        "dataformats convert photos.tfrecord photos.ffr",
        "dataformats verify photos.ffr --against photos.tfrecord",
    ),
    diff: (
        "dataformats convert photos.tfrecord photos.ffr",
        "dataformats diff photos.tfrecord photos.ffr",
        "dataformats diff photos.tfrecord photos.ffr --fields name,width --limit 10",
    ),
    index: (
        "dataformats index 'digits-*.tfrecord' --full",
        "dataformats index photos.tfrecord --text",
    ),
    convert: (
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
    repair: (
        "dataformats repair photos.tfrecord repaired.tfrecord --dry-run",
        "dataformats repair photos.tfrecord repaired.tfrecord",
        "dataformats repair 'digits-*.tfrecord' repaired",
    ),
    merge: (
        "dataformats merge 'digits-*.tfrecord' digits.tfrecord",
        "dataformats merge 'digits-*.tfrecord' digits --shards 2",
    ),
    split: (
        "dataformats split photos.tfrecord shards --shards 4",
        "dataformats split photos.tfrecord thousands --shard-records 1000",
        "dataformats split photos.tfrecord train.tfrecord test.tfrecord --fraction 0.8 --seed 0",
        "dataformats split photos.tfrecord wide.tfrecord narrow.tfrecord --where 'width > height'",
    ),
}
"""Each command with the examples in its help."""

app: typer.Typer = typer.Typer(
    name="dataformats",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 a finding (such as a damaged record), 2 a usage error, 3 a bug in this program.",
)


def _example(lines: Sequence[str]) -> str:
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)])


def _piped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command, silent if the reader of its output closes the pipe: `dataformats info x | head -1`."""

    @functools.wraps(command)
    def piped(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            if sys.stdout is not None:  # `>&-` closes it
                sys.stdout.flush()
        except BrokenPipeError:
            if sys.stdout is not None:  # otherwise the interpreter reports at exit that it cannot flush
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None

    return piped


for _command, _lines in COMMANDS.items():
    app.command(_command.__name__, epilog=_example(_lines))(_piped(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version())
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _about(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar=DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Inspect, check and convert record files."""
    if debug:
        os.environ[DEBUG] = "1"
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(USAGE)


_built = functools.cache(typer.main.get_command)  # takes longer than most commands


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    Args:
        arguments: The arguments after the program's name; `None` takes `sys.argv[1:]`.
    """
    _prepare_streams()
    given = None if arguments is None else list(arguments)
    try:
        with warnings_in_one_line():
            code = _built(app)(given, prog_name="dataformats", standalone_mode=False)
    except typer.Abort:
        sys.exit(INTERRUPTED)
    except Exception as error:  # the last place that can print it as one line
        sys.exit(_explain(error))
    sys.exit(code or 0)


def _prepare_streams() -> None:
    # Names in data and of files may not fit the encoding of a terminal.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: Exception) -> int:
    """Print an error, in one line if possible; return the exit code."""
    code, text = exit_code(error), f"dataformats: {in_lines(error)}"
    if isinstance(error, _UsageError):
        usage: Any = error
        name = "dataformats" if usage.ctx is None else usage.ctx.command_path
        message = escape_text(usage.format_message()).replace("Value error, ", "")  # a prefix from pydantic
        code, text = USAGE, f"{name}: {message.rstrip('.?')}. See {name} --help"
    with suppress(OSError):  # a full disk or a closed pipe does not change the exit code
        if os.environ.get(DEBUG) == "1":
            traceback.print_exception(error)
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    return code
