"""Options of commands, from the signatures of the functions that they render. Commands get parsed values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any, TypeVar

import click

from dataformats.cli.exit_codes import in_options
from dataformats.cli.functions import condition, named_function
from dataformats.cli.signatures import Parameter, option_name, parameters
from dataformats.errors import SpecError, UnknownNameError
from dataformats.registry import backends, codecs
from dataformats.spec import Spec, Type

PATH = click.Path(readable=False)  # shells complete it; the command says whether it is there and readable

_PYTHON = {"True": True, "False": False, "None": None}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parsed(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback of an option: the command gets the result of `parse`; errors name the option."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is None or value == ():
            return None
        if context.resilient_parsing:  # a shell completes the line
            return value
        try:
            return parse(value)
        except (SpecError, UnknownNameError, ValueError) as error:
            hint, text = max(parameter.opts, key=len), in_options(str(error), getattr(error, "remedy", None))
            raise click.BadParameter(text, context, parameter, hint) from error

    return callback


def one_or_all(paths: Sequence[str]) -> str | list[str]:
    """Return the paths for `open`: a single path stays a string, because it may have a sidecar."""
    return paths[0] if len(paths) == 1 else list(paths)


def _format(name: str) -> str:
    """Return the name of a format, which has to exist."""
    return backends.get(name).name


def _payload(name: str) -> str:
    """Return the name of a codec, which has to exist."""
    _check_codec(Type.parse(name))
    return name


def _check_codec(type_: Type) -> None:
    """Raise an error if no codec has this name and these arguments."""
    from dataformats.columns.codec_resolver import CodecResolver

    CodecResolver(None, trusted=True).codec(type_.element)


def _names(text: str) -> list[str]:
    """Return the names in `a,b`."""
    names = [name for name in text.split(",") if name]
    if not names:
        raise ValueError("expected names of fields, such as name,image")
    return names


def _spec(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the spec of texts that are `field=type` or JSON."""
    spec = Spec(_pairs(texts, "FIELD=TYPE, such as label=int64"))
    for kind in spec.values():
        _check_codec(kind)
    return spec.to_text()


def _rename(texts: tuple[str, ...]) -> dict[str, str]:
    """Return old name to new name, of texts that are `old=new` or JSON."""
    return _pairs(texts, "OLD=NEW, such as 'image/encoded=image'")


def _part(text: str) -> tuple[int, int]:
    """Return the two numbers of `I/N`."""
    number, _, n = text.partition("/")
    if not (number.isdecimal() and n.isdecimal() and int(number) < int(n)):
        raise ValueError(f"expected I/N, with I from 0 to N-1, found {text!r}")
    return int(number), int(n)


def _options(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return arguments from texts that are `name=value`, with values of JSON, `True`, `False`, `None` or text."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.isidentifier() and value):
            raise ValueError(f"expected NAME=VALUE, such as window=1024, found {text!r}")
        try:
            found[name] = _PYTHON[value] if value in _PYTHON else json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def _pairs(texts: Sequence[str], expected: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        for field, value in _pair_or_json(text, expected).items():
            if field in found:
                raise SpecError("given twice", field=field)
            found[field] = value
    return found


def _pair_or_json(text: str, expected: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        try:
            pairs = json.loads(text)
        except (ValueError, RecursionError) as error:
            found = f"no JSON at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise SpecError(f"expected a JSON object of strings, found {found}") from error
        if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
            raise SpecError(f"expected a JSON object of strings, found {text!r}")
        return pairs
    # A type has no `=`, a name may.
    field, sign, value = text.rpartition("=")
    if not (field and sign and value):
        raise SpecError(f"expected {expected}, or JSON, found {text!r}")
    return {field: value}


class _PathArgument(click.Argument):
    """A path, or several ones, with a line in the help."""

    section = "Arguments"

    def __init__(self, names: Sequence[str], *, about: str, **settings: Any) -> None:
        super().__init__(names, type=PATH, **settings)
        self.about = about

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return str(self.metavar), self.about


def path_argument(name: str, metavar: str, about: str, **settings: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that adds a path as an argument, or several ones if `nargs` is -1."""
    return click.argument(name, cls=_PathArgument, metavar=metavar, about=about, **settings)


paths = path_argument(
    "paths",
    "PATH...",
    "Files, a folder, a URL or a quoted glob; the files of a glob are sorted x-2, x-10.",
    nargs=-1,
    required=True,
    callback=parsed(one_or_all),
)
sources = path_argument("sources", "SOURCE...", "Files, a folder, a URL or a quoted glob.", nargs=-1)


def _compressions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the compressions of the format that is given, or of all formats."""
    given: Any = context.params.get("format")
    formats = [backends.get(given)] if given in backends else backends.values()
    found = {"none"}.union(*(one.compressions for one in formats))
    return sorted(name for name in found if name.startswith(incomplete) and ":" not in name)


def _complete(names: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda context, parameter, incomplete: [name for name in names if name.startswith(incomplete)]


class Number(click.FloatRange):
    """A number in a range; NaN, which click takes to be in every range, is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return self.fail("not a number", param, ctx) if isnan(number) else number


_KINDS: dict[str, dict[str, Any]] = {
    "bool": {"is_flag": True},
    "int": {"type": click.IntRange(1), "metavar": "N"},
    "float": {"type": Number(0, 1, min_open=True, max_open=True), "metavar": "SHARE"},
    "Any": {"type": PATH, "metavar": "PATH"},
    "RecordSource | Any": {"type": PATH, "metavar": "SOURCE", "multiple": True, "callback": parsed(one_or_all)},
    "OnCorrupt": {"type": click.Choice(["raise", "omit"])},
    "SpecLike": {"metavar": "FIELD=TYPE", "multiple": True, "callback": parsed(_spec)},
    "Sequence[str]": {"metavar": "A,B", "callback": parsed(_names)},
    "Mapping[str, str]": {"metavar": "OLD=NEW", "multiple": True, "callback": parsed(_rename)},
    "Where": {"metavar": "CONDITION", "callback": parsed(condition)},
    "Callable[[Any], Any]": {"metavar": "MODULE:FUNCTION", "callback": parsed(named_function)},
    "tuple[int, int]": {"metavar": "I/N", "callback": parsed(_part)},
    "**": {"metavar": "NAME=VALUE", "multiple": True, "callback": parsed(_options)},
}
"""Annotation to the settings of an option. Parameters of other types have no option."""
_NAMES: dict[str, dict[str, Any]] = {
    "format": {"metavar": "NAME", "callback": parsed(_format), "shell_complete": _complete(backends)},
    "payload": {"metavar": "NAME", "callback": parsed(_payload), "shell_complete": _complete(codecs)},
    "compression": {"metavar": "NAME", "shell_complete": _compressions},
    "limit": {"type": click.IntRange(0)},
    "seed": {"type": int, "metavar": "SEED"},
    "shuffle_seed": {"type": int, "metavar": "SEED"},
}
"""Parameter to the settings that its type does not give."""
_NOTES = {
    "SpecLike": """. Repeat it, or give all as JSON: '{"label": "int64"}'.""",
    "Mapping[str, str]": ". Repeat it, or give all as JSON.",
    "Where": ": SQL, such as 'label = 3 and width > 100'; or MODULE:FUNCTION, a function of a record in Python; or a "
    ".npy file with one bool for each record.",
    "payload": ". Naming pickle runs code in the data: only for files that you trust.",
}
_OTHERWISE = ("workers",)  # which `executors` declares
_OF_SHARDS = {"shards", "shard_records", "shard_bytes", "part", "publish_parts"}


def added(make: Callable[[], Iterable[click.Option]]) -> Callable[[_Function], _Function]:
    """Return a decorator that adds options to a command, which `usage.Command` makes when it parses."""

    def add(function: _Function) -> _Function:
        function.__dict__.setdefault("__click_params__", []).append(make)  # where click keeps them
        return function

    return add


def option(
    name: str, kind: str, about: str, default: Any = None, *, section: str = "Options", **settings: Any
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the option for an argument of this name and annotation to a command."""
    return added(lambda: [_option(name, Parameter(kind, default, about), section, **settings)])


def of(function: str, *names: str, prefix: str = "", section: str = "Options") -> Callable[[_Function], _Function]:
    """Return a decorator that adds the options for the parameters of a function to a command.

    Args:
        function: `module:function`.
        *names: These parameters alone, in this order; by default all whose types options have.
        prefix: What the names of the options begin with, such as `from_`.
        section: The section of the help.
    """

    def make() -> Iterator[click.Option]:
        found = parameters(function)
        for name in names or found:
            if (found[name].kind in _KINDS or name in _NAMES) and name not in _OTHERWISE:
                yield _option(f"{prefix}{name}", found[name], "Shard options" if name in _OF_SHARDS else section)

    return added(make)


def _option(name: str, parameter: Parameter, section: str, **settings: Any) -> click.Option:
    kind, default, about = parameter
    plain, flag = name.removeprefix("from_"), option_name(name.removeprefix("verify_"))
    given = {**_KINDS.get(kind, {}), **_NAMES.get(plain, {}), **settings}
    if default is not None:
        given["default"] = default
    note = _NOTES.get(kind) or _NOTES.get(plain) or "."
    flags = [f"{flag}/--no-{flag[2:]}" if default is True else flag, *(["-n"] if name == "limit" else [])]
    made = click.Option([*flags, name], help=about.rstrip(".") + note, **given)
    made.section = section  # type: ignore[attr-defined]  # for the help
    return made


_OPEN = "dataformats.reading.opening:open"


def reading(function: _Function) -> _Function:
    """Add the options for arguments of `open` to a command."""
    about = "Another argument of open, or an option of the format, such as window=1024 or split=train; repeat it."
    title = "Reading options"
    return of(_OPEN, "format", "payload", "spec", section=title)(option("option", "**", about, section=title)(function))


def source(*names: str) -> Callable[[_Function], _Function]:
    """Return a decorator that adds options for `source_options=`: arguments of `open`, and options of formats."""
    title = "Source options"
    more = option("from_option", "**", "An option of the format of SOURCE: see head --option.", section=title)
    return lambda function: of(_OPEN, *names, prefix="from_", section=title)(more(function))


checksums = of(_OPEN, "verify_checksums", section="Reading options")
fields = option("fields", "Sequence[str]", "Only these fields.")
where = option("where", "Where", "Only records for which this is true")
count = option("limit", "int", "How many records.", 5)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs.")


def keys(function: _Function) -> _Function:
    """Add the options that choose records by their keys to a command."""
    on = click.option("--on", metavar="FIELD", help="The field of --key, if the format has none.")
    about = "Only the record with this key; repeat it."
    return click.option("--key", "keys", metavar="KEY", multiple=True, help=about)(on(function))


def output(function: _Function) -> _Function:
    """Add the options that say how records are shown to a command."""
    about = "Show images as pictures: in full in kitty and iTerm2, in colored blocks in other terminals. "
    images = option("images", "bool", f"{about}If the output is no terminal, they stay text.")
    lines = "Print one JSON document for each record, in a line."
    return as_json(click.option("--jsonl", "json_lines", is_flag=True, help=lines)(images(function)))


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command as keyword arguments; what is not given has the default of the function."""
    found = {name: value for name, value in given.items() if value is not None}
    options: dict[str, Any] = found.pop("option", {}) | found.pop("to_option", {})
    return found | options


def source_options(given: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of `source` from the options of a command; return them as `source_options=`."""
    names = [name for name in given if name.startswith("from_")]
    return arguments({name.removeprefix("from_"): given.pop(name) for name in names})


def check_sources(sources: Sequence[str], destination: str) -> None:
    """Refuse a command with one path, which click takes as its destination.

    Raises:
        click.BadParameter: There are no sources.
    """
    if not sources:
        what = f"expected a new file or folder behind {destination!r}, found nothing"
        raise click.BadParameter(what, param_hint="DESTINATION")
