"""`dataformats head`: the first records."""

from __future__ import annotations

from typing import Any

from dataformats.cli import options
from dataformats.cli.shown_records import opened_records, output_kind, print_batches


@options.paths
@options.count
@options.fields
@options.where
@options.keys
@options.reading
@options.checksums
@options.output
def head(
    paths: str | list[str],
    limit: int,
    fields: list[str] | None,
    where: Any,
    keys: tuple[str, ...],
    on: str | None,
    **given: Any,
) -> None:
    """Show the first records.

    Long values are cut, images and videos are shown by format and size, and fields that no codec decodes as bytes.
    With --json and --jsonl values are whole, and bytes are in base64. No index is needed, except for --where
    and --key.
    """
    output = output_kind(given)
    with opened_records(paths, given, fields, where) as records:
        found = records.with_keys(keys, on, where) if keys else records.batches(where)
        print_batches(records, found, len(keys) or limit, output)
