"""`dataformats head`: the first records."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from dataformats.cli.exit_codes import FINDING
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

__all__ = ["head"]

Images = Annotated[
    bool,
    typer.Option(
        "--images",
        help="Show images as pictures: in full in kitty and iTerm2, in colored blocks in other terminals. "
        "If the output is no terminal, they stay text.",
    ),
]


@dataclass(frozen=True, slots=True)
class _Head:
    """The first records of a dataset.

    Attributes:
        records: The records, read one by one.
        fields: The fields to show; empty if records are single values.
        opaque: The fields that no codec decodes, with their types.
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
    images: Images = False,
) -> None:
    """Show the first records.

    Long values are cut, images and videos are shown by format and size, and fields that no codec decodes as bytes.
    With --json values are whole, and bytes are in base64. No index is needed.
    """
    if images and as_json:
        raise typer.BadParameter("takes no --json, whose values are whole", param_hint="--images")
    options = reading(format, payload, spec, checksums=checksums)
    with _first(one_or_all(paths), options, split_names(fields), n) as first:
        _print_json(first) if as_json else _print_records(first, images)


@contextmanager
def _first(path: str | list[str], options: dict[str, Any], fields: list[str] | None, n: int) -> Iterator[_Head]:
    from dataformats.reading.opening import open as open_source
    from dataformats.reading.undecoded import undecoded

    with open_source(path, **options) as source:
        chosen = undecoded(source)  # the headers of images and videos say enough
        chosen = chosen if fields is None else chosen.select(*fields)
        names = () if chosen.single else tuple(chosen.spec)
        yield _Head(itertools.islice(iter(chosen), min(n, sys.maxsize)), names, source.opaque_fields)


def _print_records(head: _Head, images: bool) -> None:
    from dataformats.batch.value_text import as_text
    from dataformats.cli.pictures import terminal_pictures

    picture = terminal_pictures(os.environ if images else {})
    for index, record in enumerate(head.records):
        if not head.fields:
            fact(f"record {index}", as_text(record))
            _print_lines(picture(record))
            continue
        print(f"record {index}")
        for name in head.fields:
            text = as_text(record[name]) if name in record else "missing"
            if name in head.opaque:
                text = f"{why_opaque(head.opaque[name])}; {text}"
            print(f"  {printable(name)}: {printable(text)}")
            _print_lines(picture(record.get(name)))


def _print_lines(lines: str | None) -> None:
    if lines is not None:
        print(lines)


def _print_json(head: _Head) -> None:
    """Print the records, and the error that ended them, if any."""
    from dataformats.cli.values import as_json
    from dataformats.inspecting import Finding

    records: list[Any] = []
    finding = None
    try:
        records.extend(as_json(record) for record in head.records)
    except DataFormatsError as error:
        finding = Finding.of(error)
    opaque = {name: str(kind) for name, kind in head.opaque.items()}
    print_json({"records": records, "opaque": opaque, "finding": None if finding is None else asdict(finding)})
    if finding is not None:
        raise typer.Exit(FINDING)
