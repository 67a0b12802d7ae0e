"""Options that several commands share, and their parsing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from dataformats.cli.exit_codes import in_options
from dataformats.errors import SpecError, UnknownNameError
from dataformats.registry import backends, codecs
from dataformats.spec import Spec, Type

__all__ = [
    "AsJson",
    "Checksums",
    "Count",
    "FieldNames",
    "Format",
    "FromFormat",
    "FromPayload",
    "FromSpec",
    "Images",
    "Limit",
    "Paths",
    "Payload",
    "Renames",
    "ShuffleSeed",
    "SpecTexts",
    "Where",
    "checked_format",
    "checked_payload",
    "complete_names",
    "one_or_all",
    "open_arguments",
    "parsed_rename",
    "parsed_spec",
    "reading_source",
    "split_names",
]


def complete_names(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes these names in shells."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH", help="Files, a folder, a URL or a quoted glob; the files of a glob are sorted x-2, x-10."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=complete_names(backends),
        help="The file format, if the content does not show it.",
    ),
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="NAME",
        autocompletion=complete_names(codecs),
        help="The codec of whole records: bytes, example, sequence_example, msgpack, json, ... "
        "Naming pickle runs code in the data: only for files that you trust.",
    ),
]
SpecTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--spec",
        metavar="FIELD=TYPE",
        help='The type of a field, repeated for each field, or all as JSON: \'{"label": "int64"}\'.',
    ),
]
Renames = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="A new name for a field; repeat it, or give all as JSON."),
]
FromFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=complete_names(backends),
        help="The format of SOURCE, if its content does not show it.",
    ),
]
FromPayload = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=complete_names(codecs),
        help="The codec of the records of SOURCE, such as example. Naming pickle runs code in the data.",
    ),
]
FromSpec = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=TYPE", help="The fields of SOURCE by their old names, if --spec changes types."),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Only records for which this is true: SQL, such as 'label = 3 and width > 100'; or MODULE:FUNCTION, a "
        "function of a record in Python; or a .npy file with one bool for each record.",
    ),
]
ShuffleSeed = Annotated[int | None, typer.Option(metavar="SEED", help="Shuffle all records.")]
Limit = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Only the first N records, after --where and --shuffle-seed.")
]
Count = Annotated[int, typer.Option("-n", min=0, metavar="N", help="How many records.")]
FieldNames = Annotated[str | None, typer.Option("--fields", metavar="A,B", help="Only these fields.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Images = Annotated[
    bool,
    typer.Option(
        "--images",
        help="Show images as pictures: in full in kitty and iTerm2, in colored blocks in other terminals. "
        "If the output is no terminal, they stay text.",
    ),
]
Checksums = Annotated[
    bool, typer.Option("--checksums/--no-checksums", help="Verify checksums; lengths are always checked.")
]


def open_arguments(
    format: str | None, payload: str | None, spec: Sequence[str] | None, *, checksums: bool = True
) -> dict[str, Any]:
    """Return these options as keyword arguments for `open`.

    Raises:
        typer.BadParameter: An unknown format or payload, or a spec that does not parse.
    """
    options = {
        "format": checked_format(format),
        "payload": checked_payload(payload),
        "spec": parsed_spec(spec),
    }
    return {name: value for name, value in options.items() if value is not None} | {"verify_checksums": checksums}


def reading_source(format: str | None, payload: str | None, spec: Sequence[str] | None) -> dict[str, Any]:
    """Return the `--from-*` options as `source_options=`.

    Raises:
        typer.BadParameter: An unknown format or payload, or a spec that does not parse.
    """
    options = {
        "format": checked_format(format, "--from-format"),
        "payload": checked_payload(payload, "--from-payload"),
        "spec": parsed_spec(spec, "--from-spec"),
    }
    return {name: value for name, value in options.items() if value is not None}


def one_or_all(paths: Sequence[str]) -> str | list[str]:
    """Return the paths for `open`: a single path stays a string, because it may have a sidecar."""
    return paths[0] if len(paths) == 1 else list(paths)


def checked_format(name: str | None, option: str = "--format") -> str | None:
    """Return the name of a format.

    Raises:
        typer.BadParameter: No format has that name.
    """
    try:
        return None if name is None else backends.get(name).name
    except UnknownNameError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def checked_payload(name: str | None, option: str = "--payload") -> str | None:
    """Return the name of a payload.

    Raises:
        typer.BadParameter: No codec has that name.
    """
    if name is None:
        return None
    try:
        _check_codec(Type.parse(name))
    except (SpecError, UnknownNameError) as error:
        raise typer.BadParameter(in_options(str(error), getattr(error, "remedy", None)), param_hint=option) from error
    return name


def _check_codec(type_: Type) -> None:
    """Raise an error if no codec has this name and these arguments."""
    from dataformats.columns.codec_resolver import CodecResolver

    CodecResolver(None, trusted=True).codec(type_.element)


def split_names(text: str | None, option: str = "--fields") -> list[str] | None:
    """Return the names in `a,b`; `None` if `text` is `None`.

    Raises:
        typer.BadParameter: There is no name in it.
    """
    if text is None:
        return None
    names = [name for name in text.split(",") if name]
    if not names:
        raise typer.BadParameter("expected names of fields, such as name,image", param_hint=option)
    return names


def parsed_spec(texts: Sequence[str] | None, option: str = "--spec") -> dict[str, str] | None:
    """Return the spec of texts that are `field=type` or JSON.

    Raises:
        typer.BadParameter: A text does not parse, no codec has a type, or a field is given twice.
    """
    if not texts:
        return None
    try:
        spec = Spec(_pairs(texts, "FIELD=TYPE, such as label=int64"))
        for kind in spec.values():
            _check_codec(kind)
    except (SpecError, UnknownNameError, ValueError) as error:
        raise typer.BadParameter(in_options(str(error), getattr(error, "remedy", None)), param_hint=option) from error
    return spec.to_json()


def parsed_rename(texts: Sequence[str] | None, option: str = "--rename") -> dict[str, str]:
    """Return old name to new name, of texts that are `old=new` or JSON.

    Raises:
        typer.BadParameter: A text does not parse, or a field is given twice.
    """
    try:
        return _pairs(texts or (), "OLD=NEW, such as 'image/encoded=image'")
    except (SpecError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


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
        except RecursionError as error:
            raise SpecError("expected a JSON object of strings, found deeper nesting") from error
        if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
            raise SpecError(f"expected a JSON object of strings, found {text!r}")
        return pairs
    # A type has no `=`, a name may.
    field, sign, value = text.rpartition("=")
    if not (field and sign and value):
        raise SpecError(f"expected {expected}, or JSON, found {text!r}")
    return {field: value}
