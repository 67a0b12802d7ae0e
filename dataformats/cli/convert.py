"""`dataformats convert`: write records in another format."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataformats.cli.options import (
    AsJson,
    FieldNames,
    FromFormat,
    FromPayload,
    FromSpec,
    Renames,
    SpecTexts,
    checked_format,
    checked_payload,
    one_or_all,
    parsed_rename,
    parsed_spec,
    reading_source,
    split_names,
)
from dataformats.cli.output import fact, print_json
from dataformats.cli.progress import bar
from dataformats.registry import backends

if TYPE_CHECKING:
    from dataformats.converting import ConvertReport

__all__ = ["convert"]


class Compression(StrEnum):
    """The compression of new files."""

    gzip = "gzip"
    zlib = "zlib"
    none = "none"


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE", help="Files, a folder, a URL or a quoted glob.", default_factory=list, show_default=False
    ),
]
TargetPath = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="The new file; a new folder with --shard-*, and for Granular datasets."),
]
TargetFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The new format, if the name of TARGET does not show it."),
]
TargetPayload = Annotated[
    str | None,
    typer.Option("--payload", metavar="NAME", help="The new codec of whole records; by default unchanged."),
]
ShardRecords = Annotated[int | None, typer.Option(min=1, metavar="N", help="Start a new file after N records.")]
ShardBytes = Annotated[int | None, typer.Option(min=1, metavar="N", help="Start a new file before one has N bytes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace TARGET if it exists.")]
Compressed = Annotated[
    Compression | None, typer.Option(help="TFRecord: the compression of new files; by default by the suffix of TARGET.")
]
Generation = Annotated[
    int | None,
    typer.Option(min=2, max=3, help="Granular: the generation of its files; by default 3, or 2 for sequences."),
]


def convert(
    sources: Sources,
    target: TargetPath,
    format: TargetFormat = None,
    fields: FieldNames = None,
    rename: Renames = None,
    spec: SpecTexts = None,
    payload: TargetPayload = None,
    shard_records: ShardRecords = None,
    shard_bytes: ShardBytes = None,
    compression: Compressed = None,
    generation: Generation = None,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    from_spec: FromSpec = None,
    as_json: AsJson = False,
) -> None:
    """Write records in another format, or in other shards.

    Every checksum is verified. A damaged record stops the conversion: nothing is left behind, and the exit code is 1.

    Records whose payload stays the same are copied byte by byte, and so are images and other blobs whose codec stays
    the same. --spec gives the types of the fields to take, by their new names: types that the files do not declare, or
    new types. It is saved beside TARGET.
    """
    from dataformats.converting import convert as converted
    from dataformats.writing.encoding import format_of

    if not sources:  # it is not required, or its absence would be the error for `convert SOURCE`
        raise typer.BadParameter(f"missing; found only {target!r}", param_hint="TARGET")
    new = parsed_spec(spec)
    options: dict[str, Any] = {
        "fields": split_names(fields),
        "rename": parsed_rename(rename),
        "spec": new,
        "payload": checked_payload(payload),
        "shard_records": shard_records,
        "shard_bytes": shard_bytes,
        "overwrite": overwrite,
        "source_options": reading_source(from_format, from_payload, from_spec),
    }
    if new is not None and fields is None:
        old_names = {after: before for before, after in options["rename"].items()}
        options["fields"] = [old_names.get(name, name) for name in new]
    chosen = checked_format(format) or format_of(target)
    options |= _format_options(chosen, compression=compression, generation=generation)
    with bar("converting") as progress:
        report = converted(one_or_all(sources), target, chosen, progress=progress, **options)
    print_json(asdict(report)) if as_json else _print_report(report)


def _format_options(format: str, **options: object) -> dict[str, Any]:
    """Return the options that were given; each must be one of the format's."""
    from dataformats.interfaces import check_options

    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        try:
            check_options(backends.get(format), "create", {name: value})
        except TypeError as error:
            raise typer.BadParameter(str(error), param_hint=f"--{name}") from error
    return given


def _print_report(report: ConvertReport) -> None:
    fact("path", report.path)
    fact("format", report.format)
    if report.payload is not None:
        fact("payload", report.payload)
    fact("records", report.records)
    fact("records were", "copied" if report.copied else "rewritten")
    if report.left_out:
        fact("left out", ", ".join(report.left_out))
    fact("seconds", f"{report.seconds:.2f}")
