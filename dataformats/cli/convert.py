"""`dataformats convert`: the records of one format in another."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataformats.cli.options import (
    AsJson,
    SpecTexts,
    checked_format,
    checked_payload,
    one_or_all,
    parsed_spec,
    reading,
)
from dataformats.cli.output import fact, print_json
from dataformats.cli.progress import bar
from dataformats.registry import backends

if TYPE_CHECKING:
    from dataformats.converting import ConvertReport

__all__ = ["convert"]


class Compression(StrEnum):
    """How new files are compressed."""

    gzip = "gzip"
    zlib = "zlib"
    none = "none"


_SUFFIXES = {".gz": Compression.gzip, ".zlib": Compression.zlib}

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files, a folder, a URL or a quoted glob.")]
TargetPath = Annotated[str, typer.Argument(metavar="TARGET", help="The new file; with --shard-* a new folder.")]
TargetFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The new format, where TARGET's suffix does not tell it."),
]
TargetPayload = Annotated[
    str | None,
    typer.Option("--payload", metavar="NAME", help="The new codec of whole records; else it stays as it is."),
]
FromFormat = Annotated[str | None, typer.Option(metavar="NAME", help="The format of SOURCE, where it does not tell.")]
FromPayload = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The codec of SOURCE's records, as example. Naming pickle runs whatever code the data contain.",
    ),
]
FromSpec = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=TYPE", help="The fields of SOURCE, where --spec changes their types."),
]
ShardRecords = Annotated[int | None, typer.Option(min=1, metavar="N", help="Begin another file after N records.")]
ShardBytes = Annotated[int | None, typer.Option(min=1, metavar="N", help="Begin another file before one has N bytes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace TARGET if it is there.")]
Compressed = Annotated[
    Compression | None, typer.Option(help="TFRecord: compress new files; else as TARGET's suffix says.")
]


def convert(
    sources: Sources,
    target: TargetPath,
    format: TargetFormat = None,
    spec: SpecTexts = None,
    payload: TargetPayload = None,
    shard_records: ShardRecords = None,
    shard_bytes: ShardBytes = None,
    compression: Compressed = None,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    from_spec: FromSpec = None,
    as_json: AsJson = False,
) -> None:
    """Write records in another format, or cut otherwise into files.

    Every checksum is verified. A damaged record ends it: then nothing is left behind, and the exit code is 1.
    Records whose payload stays the same are copied byte by byte. --spec names all fields, with the types that
    the data do not tell; it is kept beside TARGET.
    """
    chosen = checked_format(format) or _format_of(target)
    options: dict[str, Any] = {
        "shard_records": shard_records,
        "shard_bytes": shard_bytes,
        "overwrite": overwrite,
    }
    options |= _compression(target, chosen, compression) | {"payload": checked_payload(payload)}
    read = reading(from_format, from_payload, from_spec or spec)
    if from_spec:
        options["spec"] = parsed_spec(spec)
    report = _converted(one_or_all(sources), read, target, chosen, options)
    print_json(asdict(report)) if as_json else _print_report(report)


def _format_of(target: str) -> str:
    """Return the format whose suffix `target` has."""
    name = target.rstrip("/").lower()
    found = [known for known in backends if name.endswith(backends.get(known).suffixes)]
    if len(found) != 1:
        raise typer.BadParameter(
            f"{target!r} does not tell the format: name one of {', '.join(backends)}", param_hint="--format"
        )
    return found[0]


def _compression(target: str, format: str, wanted: Compression | None) -> dict[str, str]:
    chosen = wanted or next((known for suffix, known in _SUFFIXES.items() if target.lower().endswith(suffix)), None)
    if chosen is None or chosen is Compression.none:
        return {}
    create = getattr(backends.get(format), "create", None)
    if create is None or "compression" not in inspect.signature(create).parameters:
        raise typer.BadParameter(f"{format} files are not compressed", param_hint="--compression")
    return {"compression": chosen.value}


def _converted(
    source: str | list[str], read: dict[str, Any], target: str, format: str, options: dict[str, Any]
) -> ConvertReport:
    from dataformats.converting import convert as converted
    from dataformats.opening import open as open_source

    with bar("converting (records)") as progress, open_source(source, **read) as opened:
        return converted(opened, target, format, progress=progress, **options)


def _print_report(report: ConvertReport) -> None:
    fact("path", report.path)
    fact("format", report.format)
    if report.payload is not None:
        fact("payload", report.payload)
    fact("records", report.records)
    fact("records were", "copied" if report.copied else "decoded and encoded")
    fact("seconds", f"{report.seconds:.2f}")
