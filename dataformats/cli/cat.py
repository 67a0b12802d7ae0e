"""`dataformats cat`: all records as JSON lines."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Annotated

import typer

from dataformats.cli.functions import condition, report_failures_of
from dataformats.cli.options import (
    Checksums,
    FieldNames,
    Format,
    Paths,
    Payload,
    SpecTexts,
    Where,
    one_or_all,
    open_arguments,
    split_names,
)
from dataformats.cli.shown_records import Failures, opened_records

__all__ = ["cat"]

JsonLines = Annotated[bool, typer.Option("--jsonl", help="One JSON document per line; this is the default.")]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the first N sound records, after --where.")]


def cat(
    paths: Paths,
    json_lines: JsonLines = True,
    fields: FieldNames = None,
    where: Where = None,
    limit: Limit = None,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    checksums: Checksums = True,
) -> None:
    """Print all records as JSON lines, for other programs.

    Values are whole, and bytes, images and videos are {"base64": "..."}. Numbers that are not finite are text. Fields
    that a record lacks are left out. A damaged record is reported on standard error and left out; then the exit code
    is 1.
    """
    options, failures = open_arguments(format, payload, spec, checksums=checksums), Failures()
    chosen = condition(where)
    with opened_records(one_or_all(paths), options, split_names(fields)) as records, report_failures_of(where=chosen):
        from dataformats.display.json_values import batch_as_json

        found = itertools.chain.from_iterable(map(batch_as_json, records.batches(chosen, failures)))
        encode = json.JSONEncoder(allow_nan=False).encode
        for record in itertools.islice(found, None if limit is None else min(limit, sys.maxsize)):
            print(encode(record))
    failures.end()
