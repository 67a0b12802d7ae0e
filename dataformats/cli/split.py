"""`dataformats split`: copy a dataset into shards, or into two datasets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dataformats.cli.convert import Overwrite, Sources
from dataformats.cli.functions import condition, report_failures_of
from dataformats.cli.merge import Shards, print_counts
from dataformats.cli.options import AsJson, FromFormat, FromPayload, Where, one_or_all, open_arguments
from dataformats.cli.progress import bar

__all__ = ["split"]

Destination = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION", help="The new folder of shards; with --where the dataset of matching records."
    ),
]
ShardRecords = Annotated[int | None, typer.Option(min=1, metavar="N", help="Write shards of N records.")]
RestPath = Annotated[str | None, typer.Option(metavar="PATH", help="With --where, the dataset of all other records.")]


def split(
    sources: Sources,
    destination: Destination,
    shards: Shards = None,
    shard_records: ShardRecords = None,
    where: Where = None,
    rest_path: RestPath = None,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    as_json: AsJson = False,
) -> None:
    """Copy a dataset into shards, or into two by a condition.

    Records are not decoded, and keep their order. Every checksum is verified, and copied with its record. A damaged
    record stops the split: nothing is left behind, and the exit code is 1. The folder of the shards is one dataset, and
    so is each shard.
    """
    from dataformats.merging import split as divided

    if not sources:  # `convert` does the same
        raise typer.BadParameter(f"missing; found only {destination!r}", param_hint="DESTINATION")
    given = sum(option is not None for option in (shards, shard_records, where))
    if given != 1 or (where is None) != (rest_path is None):
        raise typer.BadParameter("expected one of --shards, --shard-records, or --where with --rest-path")
    options: dict[str, Any] = {
        "shards": shards,
        "shard_records": shard_records,
        "where": condition(where),
        "rest_path": rest_path,
        "overwrite": overwrite,
        "source_options": open_arguments(from_format, from_payload, None),
    }
    with report_failures_of(where=options["where"]), bar("splitting") as progress:
        counts = divided(one_or_all(sources), destination, progress=progress, **options)
    print_counts(counts, as_json)
