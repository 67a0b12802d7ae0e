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
        metavar="DESTINATION",
        help="The new folder of shards; with --where or --fraction the dataset of these records, and behind it the one "
        "of all others, unless --rest-path names that.",
    ),
]
ShardRecords = Annotated[int | None, typer.Option(min=1, metavar="N", help="Write shards of N records.")]
Fraction = Annotated[
    float | None, typer.Option(metavar="SHARE", help="A random share of the records, such as 0.8; the rest apart.")
]
Seed = Annotated[int, typer.Option(metavar="SEED", help="Another seed, another share of --fraction.")]
RestPath = Annotated[
    str | None, typer.Option(metavar="PATH", help="With --where or --fraction, the dataset of all other records.")
]


def split(
    sources: Sources,
    destination: Destination,
    shards: Shards = None,
    shard_records: ShardRecords = None,
    where: Where = None,
    fraction: Fraction = None,
    seed: Seed = 0,
    rest_path: RestPath = None,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    as_json: AsJson = False,
) -> None:
    """Copy a dataset into shards, or into two datasets.

    Records are not decoded, and keep their order. Every checksum is verified, and copied with its record. A damaged
    record stops the split: nothing is left behind, and the exit code is 1. The folder of the shards is one dataset, and
    so is each shard.
    """
    from dataformats.merging import split as divided

    if not sources:  # `convert` does the same
        raise typer.BadParameter(f"missing; found only {destination!r}", param_hint="DESTINATION")
    given = sum(option is not None for option in (shards, shard_records, where, fraction))
    divides = where is not None or fraction is not None
    if divides and rest_path is None and len(sources) > 1:
        sources, destination, rest_path = sources[:-1], sources[-1], destination
    if given != 1 or divides != (rest_path is not None):
        what = "expected one of --shards, --shard-records, or --where or --fraction with a path for the rest"
        raise typer.BadParameter(what)
    if fraction is not None and not 0 < fraction < 1:
        raise typer.BadParameter(f"expected a share between 0 and 1, found {fraction:g}", param_hint="--fraction")
    options: dict[str, Any] = {
        "shards": shards,
        "shard_records": shard_records,
        "where": condition(where),
        "fraction": fraction,
        "seed": seed,
        "rest_path": rest_path,
        "overwrite": overwrite,
        "source_options": open_arguments(from_format, from_payload, None),
    }
    with report_failures_of(where=options["where"]), bar("splitting") as progress:
        counts = divided(one_or_all(sources), destination, progress=progress, **options)
    print_counts(counts, as_json)
