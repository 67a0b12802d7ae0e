"""The commands as click sees them: sections of the help, and usage errors as sentences of this package."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any, cast

import click

from dataformats.cli.exit_codes import BROKEN_PIPE, INTERRUPTED
from dataformats.cli.signatures import option_name
from dataformats.errors import DataFormatsError, UnknownNameError
from dataformats.storage.remote.names import shown_url

_NUMBERS = {"integer": "a whole number", "float": "a number", "boolean": "1 or 0"}


class Command(click.Command):
    """A command of the program."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Make the options of `options.added` at their first use: no other command needs them."""
        params = cast("list[Any]", self.params)
        self.params = [*chain(*([one] if isinstance(one, click.Parameter) else one() for one in params))]
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and the options, by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        self._given = [*args]
        return _parsed(super().parse_args, self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a refused argument, or a missing file that may be meant as a field, is a usage error."""
        try:
            return super().invoke(ctx)
        except (TypeError, ValueError) as error:
            hint, text = _in_options(str(error), ctx.params)
            if hint is None or isinstance(error, DataFormatsError):
                raise
            raise click.BadParameter(text, ctx=ctx, param_hint=hint) from error
        except FileNotFoundError as error:
            paths = ctx.params.get("paths")
            names = [path for path in paths[1:] if not os.path.exists(path)] if isinstance(paths, list) else []
            if "fields" not in ctx.params or error.filename not in names:
                raise
            rest = shlex.join(shown_url(text) for text in self._given if text not in names)
            remedy = f"run {ctx.command_path} {rest} --fields {shlex.quote(','.join(names))}"
            what = f"expected files, found no {error.filename!r}. If it is a field, {remedy}"
            raise click.BadParameter(what, ctx=ctx, param_hint="PATH") from error


def _in_options(message: str, params: dict[str, Any]) -> tuple[str | None, str]:
    """Return the option that an error of a function is about, `""` for several, `None` for none, and its message."""
    name, sign, what = message.partition(": expected ")
    of_formats = ["option", *(["to_option", "from_option"] if "create()" in what else ["from_option", "to_option"])]
    places = {one: one for one in params}
    places |= {one: option for option in reversed(of_formats) for one in params.get(option) or ()}
    asked = re.findall(r"'(\w+)'", what.rpartition("found ")[2]) if name == "unknown option" else [name]
    found = [places[one] for one in asked if one in places] or [one for one in of_formats if params.get(one)]
    if sign and found:
        return option_name(found[0]), f"expected {what}" if found[0] == name else message
    text = message.replace("source_options=", "from_option=")
    text = re.sub(r"\b(\w+)=(True\b)?", lambda one: option_name(one[1]) if one[1] in params else one[0], text)
    return (None if text == message else ""), text


class CommandGroup(click.Group):
    """The program: see `Command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in their order

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return _parsed(super().parse_args, self, ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:  # as completion does
            error = UnknownNameError("command", name=args[0], known=self.commands)
            raise click.BadParameter(str(error), ctx=ctx, param_hint="")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run a command, silent if the reader of its output closes the pipe: `dataformats info x | head -1`."""
        try:
            super().invoke(ctx)
            if sys.stdout is not None:  # `>&-` closes it
                sys.stdout.flush()
        except BrokenPipeError:
            if sys.stdout is not None:  # otherwise the interpreter reports at exit that it cannot flush
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None


def _parsed(parse: Callable[..., list[str]], command: Any, ctx: Any, args: list[str]) -> list[str]:
    given = [*args]
    try:
        return parse(ctx, args)
    except click.UsageError as error:
        if getattr(error, "param_hint", None) is not None:  # `options.parsed` named the option
            raise
        raise _in_words(error, command, ctx, given) from error


def _in_words(error: Any, command: Any, ctx: Any, given: list[str]) -> click.BadParameter:
    """Return an error of click's parser with the option or argument, what it takes, and what was found."""
    by_name = {text: param for param in command.get_params(ctx) for text in (*param.opts, *param.secondary_opts)}
    name: Any = getattr(error, "option_name", None)
    param = getattr(error, "param", None) or by_name.get(name)
    if param is None and name is not None:
        known = [text for text in by_name if text.startswith("-")]
        hint, what = "", str(UnknownNameError("option", name=name, known=known))
    elif param is None:
        _, rest, _ = command.make_parser(ctx).parse_args([*given])
        places = " and ".join(_place(one) for one in command.params if one.param_type_name == "argument")
        found = shlex.join(map(shown_url, rest))
        hint, what = "", f"expected {f'{places} alone' if places else 'no argument'}, found {found!r}"
    elif getattr(param, "is_flag", False) and name is not None:
        found = next(text for text in given if text.startswith(f"{name}="))
        hint, what = name, f"expected no value, found {found.partition('=')[2]!r}"
    else:
        values = {} if name is not None else command.make_parser(ctx).parse_args([*given])[0]
        value = values.get(param.name) or os.environ.get(str(param.envvar))
        names = param.opts if param.param_type_name == "option" else [_place(param)]
        hint = name or next((text for text in names if text in given), names[-1])
        what = f"expected {_expected(param)}, found {repr(value) if isinstance(value, str) else 'nothing'}"
    return click.BadParameter(what, ctx=ctx, param_hint=hint)


def _place(argument: Any) -> str:
    return str(argument.metavar).removesuffix("...")


def _expected(param: Any) -> str:
    """Return what an option or an argument takes."""
    kind = param.type
    if isinstance(kind, click.Choice):
        return " or ".join(map(repr, kind.choices))
    number = _NUMBERS.get(kind.name.removesuffix(" range"))
    if number is None and param.param_type_name == "option":
        return str(param.metavar)
    if number is None:
        about = param.about.partition(";")[0].rstrip(".")
        return f"{about[0].lower()}{about[1:]}"
    if getattr(kind, "min", None) is None:
        return number
    if kind.max is None:
        return f"{number}, at least {kind.min}"
    return f"{number} {'between' if kind.min_open else 'from'} {kind.min} {'and' if kind.min_open else 'to'} {kind.max}"
