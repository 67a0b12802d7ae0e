"""Options that several commands share, as decorators such as `@options.where`. Commands get parsed values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import click

from dataformats.cli.exit_codes import in_options
from dataformats.cli.functions import condition
from dataformats.errors import SpecError, UnknownNameError
from dataformats.registry import backends, codecs
from dataformats.spec import Spec, Type

PATH = click.Path(readable=False)  # shells complete it; the command says whether it is there and readable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parsed(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback of an option: the command gets the result of `parse`, and its errors name the option."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
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


def format_name(name: str | None) -> str | None:
    """Return the name of a format, which has to exist."""
    return None if name is None else backends.get(name).name


def payload_name(name: str | None) -> str | None:
    """Return the name of a codec, which has to exist."""
    if name is not None:
        _check_codec(Type.parse(name))
    return name


def _check_codec(type_: Type) -> None:
    """Raise an error if no codec has this name and these arguments."""
    from dataformats.columns.codec_resolver import CodecResolver

    CodecResolver(None, trusted=True).codec(type_.element)


def _names(text: str | None) -> list[str] | None:
    """Return the names in `a,b`."""
    names = None if text is None else [name for name in text.split(",") if name]
    if names == []:
        raise ValueError("expected names of fields, such as name,image")
    return names


def _spec(texts: tuple[str, ...]) -> dict[str, str] | None:
    """Return the spec of texts that are `field=type` or JSON."""
    if not texts:
        return None
    spec = Spec(_pairs(texts, "FIELD=TYPE, such as label=int64"))
    for kind in spec.values():
        _check_codec(kind)
    return spec.to_json()


def _rename(texts: tuple[str, ...]) -> dict[str, str]:
    """Return old name to new name, of texts that are `old=new` or JSON."""
    return _pairs(texts, "OLD=NEW, such as 'image/encoded=image'")


def _options(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return arguments from texts that are `name=value`, with values of JSON or text."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.isidentifier() and value):
            raise ValueError(f"expected NAME=VALUE, such as window=1024, found {text!r}")
        try:
            found[name] = json.loads(value)
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


def section(title: str, *options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Return a decorator that adds these options to a command, in a section of its help."""

    def add(function: _Function) -> _Function:
        for option in reversed(options):
            option(function)
            function.__click_params__[-1].section = title  # type: ignore[attr-defined]  # where click keeps them
        return function

    return add


def complete_names(names: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes these names in shells."""
    return lambda context, parameter, incomplete: [name for name in names if name.startswith(incomplete)]


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
spec = click.option(
    "--spec",
    multiple=True,
    callback=parsed(_spec),
    metavar="FIELD=TYPE",
    help='The type of a field, repeated for each field, or all as JSON: \'{"label": "int64"}\'.',
)
reading = section(
    "Reading options",
    click.option(
        "--format",
        metavar="NAME",
        callback=parsed(format_name),
        shell_complete=complete_names(backends),
        help="The file format, if the content does not show it.",
    ),
    click.option(
        "--payload",
        metavar="NAME",
        callback=parsed(payload_name),
        shell_complete=complete_names(codecs),
        help="The codec of whole records: bytes, example, sequence_example, msgpack, json, ... "
        "Naming pickle runs code in the data: only for files that you trust.",
    ),
    spec,
    click.option(
        "--option",
        multiple=True,
        callback=parsed(_options),
        metavar="NAME=VALUE",
        help="Another argument of open, or an option of the format, such as window=1024 or split=train; repeat it.",
    ),
)
checksums = section(
    "Reading options",
    click.option("--checksums/--no-checksums", default=True, help="Verify checksums; lengths are always checked."),
)
from_option = section(
    "Source options",
    click.option(
        "--from-option",
        multiple=True,
        callback=parsed(_options),
        metavar="NAME=VALUE",
        help="An option of the format of SOURCE: see head --option.",
    ),
)
from_source = section(
    "Source options",
    click.option(
        "--from-format",
        metavar="NAME",
        callback=parsed(format_name),
        shell_complete=complete_names(backends),
        help="The format of SOURCE, if its content does not show it.",
    ),
    click.option(
        "--from-payload",
        metavar="NAME",
        callback=parsed(payload_name),
        shell_complete=complete_names(codecs),
        help="The codec of the records of SOURCE, such as example. Naming pickle runs code in the data.",
    ),
    from_option,
)
from_spec = section(
    "Source options",
    click.option(
        "--from-spec",
        multiple=True,
        callback=parsed(_spec),
        metavar="FIELD=TYPE",
        help="The type of a field of SOURCE, by its old name, if --spec changes it.",
    ),
)
rename = click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    callback=parsed(_rename),
    help="A new name for a field; repeat it, or give all as JSON.",
)
where = click.option(
    "--where",
    metavar="CONDITION",
    callback=parsed(condition),
    help="Only records for which this is true: SQL, such as 'label = 3 and width > 100'; or MODULE:FUNCTION, a "
    "function of a record in Python; or a .npy file with one bool for each record.",
)
shuffle_seed = click.option("--shuffle-seed", type=int, metavar="SEED", help="Shuffle all records.")
limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="Only the first N records, after --where and --shuffle-seed.",
)
count = click.option("-n", "--limit", type=click.IntRange(0), default=5, metavar="N", help="How many records.")
fields = click.option("--fields", metavar="A,B", callback=parsed(_names), help="Only these fields.")
shards = click.option(
    "--shards", type=click.IntRange(1), metavar="N", help="Write N shards whose sizes differ by one record at most."
)
to_option = click.option(
    "--to-option",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parsed(_options),
    help="An option of the new format, such as generation=2 or row_group_records=1000; repeat it.",
)
overwrite = click.option("--overwrite", is_flag=True, help="Replace DESTINATION if it exists.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, for programs.")
output = section(
    "Options",
    as_json,
    click.option("--jsonl", "json_lines", is_flag=True, help="Print one JSON document for each record, in a line."),
    click.option(
        "--images",
        is_flag=True,
        help="Show images as pictures: in full in kitty and iTerm2, in colored blocks in other terminals. "
        "If the output is no terminal, they stay text.",
    ),
)


def open_arguments(
    *, option: Mapping[str, Any] = MappingProxyType({}), checksums: bool = True, **given: Any
) -> dict[str, Any]:
    """Return the options of `reading` and `checksums` as keyword arguments for `open`."""
    verified = {} if checksums else {"verify_checksums": False}
    return {**option, **{name: value for name, value in given.items() if value is not None}, **verified}


def source_options(**given: Any) -> dict[str, Any]:
    """Return the options of `from_source` and `from_spec` as `source_options=`."""
    return open_arguments(**{name.removeprefix("from_"): value for name, value in given.items()})


def check_sources(sources: Sequence[str], destination: str) -> None:
    """Refuse a command with one path, which click takes as its destination.

    Raises:
        click.BadParameter: There are no sources.
    """
    if not sources:
        what = f"expected a new file or folder behind {destination!r}, found nothing"
        raise click.BadParameter(what, param_hint="DESTINATION")
