"""`dataformats cat`: all records as JSON lines."""

from __future__ import annotations

from typing import Any

import click

from dataformats.cli import options
from dataformats.cli.shown_records import Failures, opened_records, print_records_as_lines


@options.paths
@click.option(
    "--jsonl",
    "--json",
    is_flag=True,
    expose_value=False,
    help="Print one JSON document for each record, in a line; the default.",
)
@options.fields
@options.where
@options.keys
@options.option("limit", "int", "Only the first N sound records, after --where.")
@options.reading
@options.checksums
def cat(
    paths: str | list[str],
    fields: list[str] | None,
    where: Any,
    keys: tuple[str, ...],
    on: str | None,
    limit: int | None,
    **reading: Any,
) -> None:
    """Print all records as JSON lines, for other programs.

    Values are whole, and bytes, images and videos are {"base64": "..."}. Numbers that are not finite are text. Fields
    that a record lacks are left out. A damaged record is reported on standard error and left out; then the exit code
    is 1.
    """
    failures = Failures()
    with opened_records(paths, reading, fields, where) as records:
        found = records.with_keys(keys, on, where, failures) if keys else records.batches(where, failures)
        print_records_as_lines(found, limit)
    failures.end()
