"""Options that several commands share, as decorators such as `@options.where`, and their parsing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from dataformats.cli.exit_codes import in_options
from dataformats.errors import SpecError, UnknownNameError
from dataformats.registry import backends, codecs
from dataformats.spec import Spec, Type

PATH = click.Path(readable=False)  # shells complete it; the command says whether it is there and readable

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
)
sources = path_argument("sources", "SOURCE...", "Files, a folder, a URL or a quoted glob.", nargs=-1)
spec = click.option(
    "--spec",
    multiple=True,
    metavar="FIELD=TYPE",
    help='The type of a field, repeated for each field, or all as JSON: \'{"label": "int64"}\'.',
)
reading = section(
    "Reading options",
    click.option(
        "--format",
        metavar="NAME",
        shell_complete=complete_names(backends),
        help="The file format, if the content does not show it.",
    ),
    click.option(
        "--payload",
        metavar="NAME",
        shell_complete=complete_names(codecs),
        help="The codec of whole records: bytes, example, sequence_example, msgpack, json, ... "
        "Naming pickle runs code in the data: only for files that you trust.",
    ),
    spec,
    click.option(
        "--option",
        multiple=True,
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
        metavar="NAME=VALUE",
        help="An option of the format of SOURCE: see head --option.",
    ),
)
from_source = section(
    "Source options",
    click.option(
        "--from-format",
        metavar="NAME",
        shell_complete=complete_names(backends),
        help="The format of SOURCE, if its content does not show it.",
    ),
    click.option(
        "--from-payload",
        metavar="NAME",
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
        metavar="FIELD=TYPE",
        help="The type of a field of SOURCE, by its old name, if --spec changes it.",
    ),
)
rename = click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="A new name for a field; repeat it, or give all as JSON."
)
where = click.option(
    "--where",
    metavar="CONDITION",
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
fields = click.option("--fields", metavar="A,B", help="Only these fields.")
shards = click.option(
    "--shards", type=click.IntRange(1), metavar="N", help="Write N shards whose sizes differ by one record at most."
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
    *, format: str | None, payload: str | None, spec: tuple[str, ...], option: tuple[str, ...], checksums: bool = True
) -> dict[str, Any]:
    """Return the options of `reading` and `checksums` as keyword arguments for `open`.

    Raises:
        click.BadParameter: An unknown format or payload, or a spec that does not parse.
    """
    found = {
        **parsed_options(option, "--option"),
        "format": checked_format(format),
        "payload": checked_payload(payload),
        "spec": parsed_spec(spec),
    }
    given = {name: value for name, value in found.items() if value is not None}
    return given if checksums else given | {"verify_checksums": False}


def reading_source(
    *,
    from_format: str | None = None,
    from_payload: str | None = None,
    from_spec: tuple[str, ...] = (),
    from_option: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the options of `from_source` and `from_spec` as `source_options=`.

    Raises:
        click.BadParameter: An unknown format or payload, or a spec that does not parse.
    """
    found = {
        **parsed_options(from_option, "--from-option"),
        "format": checked_format(from_format, "--from-format"),
        "payload": checked_payload(from_payload, "--from-payload"),
        "spec": parsed_spec(from_spec, "--from-spec"),
    }
    return {name: value for name, value in found.items() if value is not None}


def parsed_options(texts: tuple[str, ...], option: str) -> dict[str, Any]:
    """Return arguments from texts that are `name=value`, with values of JSON or text.

    Raises:
        click.BadParameter: A text is no `name=value`.
    """
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.isidentifier() and value):
            raise click.BadParameter(f"expected NAME=VALUE, such as window=1024, found {text!r}", param_hint=option)
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def check_sources(sources: Sequence[str], destination: str) -> None:
    """Refuse a command with one path, which click takes as its destination.

    Raises:
        click.BadParameter: There are no sources.
    """
    if not sources:
        what = f"expected a new file or folder behind {destination!r}, found nothing"
        raise click.BadParameter(what, param_hint="DESTINATION")


def one_or_all(paths: Sequence[str]) -> str | list[str]:
    """Return the paths for `open`: a single path stays a string, because it may have a sidecar."""
    return paths[0] if len(paths) == 1 else list(paths)


def checked_format(name: str | None, option: str = "--format") -> str | None:
    """Return the name of a format.

    Raises:
        click.BadParameter: No format has that name.
    """
    try:
        return None if name is None else backends.get(name).name
    except UnknownNameError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def checked_payload(name: str | None, option: str = "--payload") -> str | None:
    """Return the name of a payload.

    Raises:
        click.BadParameter: No codec has that name.
    """
    if name is None:
        return None
    try:
        _check_codec(Type.parse(name))
    except (SpecError, UnknownNameError) as error:
        raise click.BadParameter(in_options(str(error), getattr(error, "remedy", None)), param_hint=option) from error
    return name


def _check_codec(type_: Type) -> None:
    """Raise an error if no codec has this name and these arguments."""
    from dataformats.columns.codec_resolver import CodecResolver

    CodecResolver(None, trusted=True).codec(type_.element)


def split_names(text: str | None, option: str = "--fields") -> list[str] | None:
    """Return the names in `a,b`; `None` if `text` is `None`.

    Raises:
        click.BadParameter: There is no name in it.
    """
    if text is None:
        return None
    names = [name for name in text.split(",") if name]
    if not names:
        raise click.BadParameter("expected names of fields, such as name,image", param_hint=option)
    return names


def parsed_spec(texts: tuple[str, ...], option: str = "--spec") -> dict[str, str] | None:
    """Return the spec of texts that are `field=type` or JSON.

    Raises:
        click.BadParameter: A text does not parse, no codec has a type, or a field is given twice.
    """
    if not texts:
        return None
    try:
        spec = Spec(_pairs(texts, "FIELD=TYPE, such as label=int64"))
        for kind in spec.values():
            _check_codec(kind)
    except (SpecError, UnknownNameError, ValueError) as error:
        raise click.BadParameter(in_options(str(error), getattr(error, "remedy", None)), param_hint=option) from error
    return spec.to_json()


def parsed_rename(texts: tuple[str, ...], option: str = "--rename") -> dict[str, str]:
    """Return old name to new name, of texts that are `old=new` or JSON.

    Raises:
        click.BadParameter: A text does not parse, or a field is given twice.
    """
    try:
        return _pairs(texts, "OLD=NEW, such as 'image/encoded=image'")
    except (SpecError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _pairs(texts: Sequence[str], expected: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        for field, value in _parsed(text, expected).items():
            if field in found:
                raise SpecError("given twice", field=field)
            found[field] = value
    return found


def _parsed(text: str, expected: str) -> dict[str, str]:
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
