"""`dataformats convert`: the records of one format in another."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataformats.cli.opaque import opaque_fields
from dataformats.cli.options import (
    AsJson,
    FieldNames,
    SpecTexts,
    checked_format,
    checked_payload,
    one_or_all,
    parsed_rename,
    parsed_spec,
    reading,
    split_names,
)
from dataformats.cli.output import fact, print_json
from dataformats.cli.progress import bar
from dataformats.errors import UnknownNameError
from dataformats.registry import backends
from dataformats.spec import Type

if TYPE_CHECKING:
    from dataformats.converting import ConvertReport
    from dataformats.reading.file_source import FileSource

__all__ = ["convert"]


class Compression(StrEnum):
    """How new files are compressed."""

    gzip = "gzip"
    zlib = "zlib"
    none = "none"


_SUFFIXES = {".gz": Compression.gzip, ".zlib": Compression.zlib}
_BAG = ".bag"

Sources = Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files, a folder, a URL or a quoted glob.")]
TargetPath = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="The new file; a new folder with --shard-*, and for Granular's data sets."),
]
TargetFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The new format, where TARGET's name does not tell it."),
]
TargetPayload = Annotated[
    str | None,
    typer.Option("--payload", metavar="NAME", help="The new codec of whole records; else it stays as it is."),
]
Renames = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="Another name for a field, once for each, or all as JSON."),
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
    typer.Option(metavar="FIELD=TYPE", help="The fields of SOURCE by their old names, where --spec changes types."),
]
ShardRecords = Annotated[int | None, typer.Option(min=1, metavar="N", help="Begin another file after N records.")]
ShardBytes = Annotated[int | None, typer.Option(min=1, metavar="N", help="Begin another file before one has N bytes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace TARGET if it is there.")]
Compressed = Annotated[
    Compression | None, typer.Option(help="TFRecord: compress new files; else as TARGET's suffix says.")
]
Generation = Annotated[
    int | None,
    typer.Option(min=2, max=3, help="Granular: the generation of its files; else 3, or 2 where a sequence needs it."),
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
    """Write records in another format, or cut otherwise into files.

    Every checksum is verified. A damaged record ends it: then nothing is left behind, and the exit code is 1.

    Records whose payload stays the same are copied byte by byte, and so are images and other blobs whose codec
    stays the same. --spec names all fields, by their new names, with the types that the data do not tell, or with
    others; it is kept beside TARGET.
    """
    chosen = checked_format(format) or _format_of(target)
    options: dict[str, Any] = {
        "fields": split_names(fields),
        "rename": parsed_rename(rename),
        "spec": parsed_spec(spec),
        "payload": checked_payload(payload),
        "shard_records": shard_records,
        "shard_bytes": shard_bytes,
        "overwrite": overwrite,
    }
    options |= _compression(target, chosen, compression) | _generation(chosen, generation)
    read = reading(from_format, from_payload, None)
    if from_spec:
        read["spec"] = parsed_spec(from_spec, "--from-spec")
    report = _converted(one_or_all(sources), read, target, chosen, options)
    print_json(asdict(report)) if as_json else _print_report(report)


def _format_of(target: str) -> str:
    """Return the format whose names are like that of `target`."""
    name = target.rstrip("/").rsplit("/", 1)[-1].lower()
    found = [known for known in backends if backends.get(known).matches_name(name)]
    if len(found) != 1:
        raise typer.BadParameter(
            f"{target!r} does not tell the format: name one of {', '.join(backends)}", param_hint="--format"
        )
    return found[0]


def _compression(target: str, format: str, wanted: Compression | None) -> dict[str, str]:
    chosen = wanted or next((known for suffix, known in _SUFFIXES.items() if target.lower().endswith(suffix)), None)
    if chosen is None or chosen is Compression.none:
        return {}
    if not _takes(format, "compression"):
        raise typer.BadParameter(f"{format} files are not compressed", param_hint="--compression")
    return {"compression": chosen.value}


def _generation(format: str, wanted: int | None) -> dict[str, int]:
    if wanted is None:
        return {}
    if not _takes(format, "generation"):
        raise typer.BadParameter(f"{format} has no generations", param_hint="--generation")
    return {"generation": wanted}


def _takes(format: str, option: str) -> bool:
    create = getattr(backends.get(format), "create", None)
    return create is not None and option in inspect.signature(create).parameters


def _converted(
    path: str | list[str], read: dict[str, Any], target: str, format: str, options: dict[str, Any]
) -> ConvertReport:
    from dataformats.converting import convert as converted

    if options["spec"] is not None and "spec" not in read:
        read = read | {"spec": _told(path, read, options["spec"], options["rename"])}
    with bar("converting") as progress, _opened(path, read) as source:
        _check_names(source, options["rename"])
        if format == "granular":
            _check_bag(source, target, options)
        return converted(source, target, format, progress=progress, **options)


def _opened(path: str | list[str], read: dict[str, Any]) -> FileSource:
    from dataformats.reading.file_source import FileSource
    from dataformats.reading.opening import open as open_source

    source = open_source(path, **read)
    if not isinstance(source, FileSource):
        raise TypeError(f"expected a source of files, found {type(source).__name__}")
    return source


def _told(
    path: str | list[str], read: dict[str, Any], new: Mapping[str, str], rename: Mapping[str, str]
) -> dict[str, str]:
    """Return the types that SOURCE is read with: its own, and where it tells none, those that it shall get."""
    old = {after: before for before, after in rename.items()}
    wanted = {old.get(name, name): kind for name, kind in new.items()}
    with _opened(path, read) as source:
        if source.single or source.spec_is_inferred:
            return wanted
        told = {name: kind for name, kind in source.spec.items() if name in wanted}
    # Only fields that are wanted: a type that a file names must not come to be one that the call names.
    opaque = opaque_fields(told)
    free = {name for name, kind in told.items() if name in opaque or _is_open(kind, Type.parse(wanted[name]))}
    return {name: wanted[name] if name in free else str(kind) for name, kind in told.items()}


def _is_open(told: Type, wanted: Type) -> bool:
    """Return True where stored bytes may be whatever the wanted type says."""
    plain = told.codec == "bytes" or (told.codec == "uint8" and len(told.dims) == 1)
    return plain and wanted.dtype is None


def _check_names(source: FileSource, rename: Mapping[str, str]) -> None:
    for name in rename:
        if source.single or name not in source.spec:
            known = () if source.single else source.spec
            raise typer.BadParameter(str(UnknownNameError("field", name=name, known=known)), param_hint="--rename")


def _check_bag(source: FileSource, target: str, options: Mapping[str, Any]) -> None:
    """Refuse what Granular has no place for: a bag holds values, a data set fields."""
    bag = target.rstrip("/").endswith(_BAG)
    if source.single and not bag:
        raise typer.BadParameter(f"single values go to one file that ends in {_BAG}, found {target!r}")
    if source.single and (options["shard_records"] or options["shard_bytes"]):
        raise typer.BadParameter("single values go to one bag; only data sets of fields have shards")
    if bag and not source.single:
        raise typer.BadParameter(f"a {_BAG} holds single values, and SOURCE has fields: name a folder, as 'photos'")


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
