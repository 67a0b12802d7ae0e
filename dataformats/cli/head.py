"""`dataformats head`: the first records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from dataformats.cli.exits import FINDING
from dataformats.cli.options import (
    AsJson,
    Checksums,
    Count,
    FieldNames,
    Format,
    Paths,
    Payload,
    SpecTexts,
    one_or_all,
    reading,
    split_names,
)
from dataformats.cli.output import fact, print_json, printable, why_opaque
from dataformats.errors import DataFormatsError
from dataformats.spec import Type

if TYPE_CHECKING:
    pass

__all__ = ["head"]

_MEDIA = ("jpg", "jpeg", "png", "webp", "mp4", "webm")


@dataclass(frozen=True, slots=True)
class _Head:
    """The first records.

    Attributes:
        records: They, read as they are taken.
        fields: The fields that were asked for; empty where records are single values.
        opaque: Those that nothing decodes, with their types.
    """

    records: Iterator[Any]
    fields: tuple[str, ...]
    opaque: Mapping[str, Type]


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

    Long values are cut short, images and videos are shown by format and size, and fields of a type that nothing
    decodes by their bytes; with --json values are whole, and bytes in base64. No index is needed.
    """
    options = reading(format, payload, spec, checksums=checksums)
    with _first(one_or_all(paths), options, split_names(fields), n) as found:
        _print_json(found) if as_json else _print_records(found)


@contextmanager
def _first(path: str | list[str], options: dict[str, Any], fields: list[str] | None, n: int) -> Iterator[_Head]:
    from dataformats.columns.codec_resolver import as_bytes
    from dataformats.reading.opening import open as open_source

    with open_source(path, **options) as source:
        opaque = source.opaque_fields
        encoded = {name for name, kind in source.spec.items() if kind.codec in _MEDIA} | opaque.keys()
        # Images and videos are read as bytes: their headers say enough.
        chosen = source.with_spec(as_bytes(source.spec, encoded)) if encoded else source
        chosen = chosen if fields is None else chosen.select(*fields)
        names = () if chosen.single else tuple(chosen.spec)
        yield _Head(itertools.islice(iter(chosen), n), names, opaque)


def _print_records(found: _Head) -> None:
    from dataformats.cli.showing import shown

    for index, record in enumerate(found.records):
        if not found.fields:
            fact(f"record {index}", shown(record))
            continue
        print(f"record {index}")
        for name in found.fields:
            text = shown(record[name]) if name in record else "missing"
            if name in found.opaque:
                text = f"{why_opaque(found.opaque[name])}; {text}"
            print(f"  {printable(name)}: {printable(text)}")


def _print_json(found: _Head) -> None:
    """Print what could be read, and what ended it."""
    from dataformats.cli.showing import as_json
    from dataformats.inspecting import Finding

    records: list[Any] = []
    finding = None
    try:
        records.extend(as_json(record) for record in found.records)
    except DataFormatsError as error:
        finding = Finding.of(error)
    opaque = {name: str(kind) for name, kind in found.opaque.items()}
    print_json({"records": records, "opaque": opaque, "finding": None if finding is None else asdict(finding)})
    if finding is not None:
        raise typer.Exit(FINDING)
