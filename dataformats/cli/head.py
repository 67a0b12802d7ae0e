"""`dataformats head`: the first records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataformats.cli.exits import FINDING
from dataformats.cli.options import AsJson, Checksums, Format, Paths, Payload, SpecTexts, one_or_all, reading
from dataformats.cli.output import fact, print_json, printable
from dataformats.errors import DataFormatsError

if TYPE_CHECKING:
    from dataformats.source import RecordSource

__all__ = ["head"]

_IMAGES = ("jpg", "png", "webp")

Count = Annotated[int, typer.Option("-n", min=0, help="How many records.")]
FieldNames = Annotated[str | None, typer.Option("--fields", metavar="A,B", help="Only these fields.")]


def head(
    paths: Paths,
    n: Count = 5,
    fields: FieldNames = None,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    checksums: Checksums = True,
    as_json: AsJson = False,
) -> None:
    """Show the first records.

    Long values are cut short, and images shown by format, size and mode; with --json values are whole, and
    bytes in base64. No index is needed.
    """
    options = reading(format, payload, spec, checksums=checksums)
    records = itertools.islice(_records(one_or_all(paths), options, fields), n)
    if as_json:
        _print_json(records)
    else:
        _print_records(records)


def _records(path: str | list[str], options: dict[str, Any], fields: str | None) -> Iterator[Any]:
    from dataformats.opening import open as open_source

    with open_source(path, **options) as source:
        _leave_images_encoded(source)
        yield from source if fields is None else source.select(*fields.split(","))


def _leave_images_encoded(source: RecordSource) -> None:
    """Have images read as their bytes: of them, the header is shown."""
    from dataformats.spec import Spec
    from dataformats.stored import StoredSource

    kinds = source.spec
    if isinstance(source, StoredSource) and any(kind.codec in _IMAGES for kind in kinds.values()):
        plain = {
            name: replace(kind, codec="bytes", args=()) if kind.codec in _IMAGES else kind
            for name, kind in kinds.items()
        }
        source.adopt(source.payload, Spec(plain))


def _print_records(records: Iterator[Any]) -> None:
    from dataformats.cli.showing import shown

    for index, record in enumerate(records):
        if not isinstance(record, dict):
            fact(f"record {index}", shown(record))
            continue
        print(f"record {index}")
        for name, value in record.items():
            print(f"  {printable(name)}: {printable(shown(value))}")


def _print_json(records: Iterator[Any]) -> None:
    """Print what could be read, and what ended it."""
    from dataclasses import asdict

    from dataformats.cli.showing import as_json
    from dataformats.inspecting import Finding

    found: list[Any] = []
    finding = None
    try:
        found.extend(as_json(record) for record in records)
    except DataFormatsError as error:
        finding = Finding.of(error)
    print_json({"records": found, "finding": None if finding is None else asdict(finding)})
    if finding is not None:
        raise typer.Exit(FINDING)
