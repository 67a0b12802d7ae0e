"""`dataformats split`: copy a dataset into shards, or into two datasets."""

from __future__ import annotations

from typing import Any

import click

from dataformats.cli import options
from dataformats.cli.functions import report_failures_of
from dataformats.cli.merge import print_counts
from dataformats.cli.progress import bar


@options.sources
@options.path_argument(
    "destination",
    "DESTINATION",
    "The new folder of shards; with --where or --fraction the dataset of these records, and behind it the one "
    "of all others, unless --rest-path names that.",
)
@options.shards
@click.option("--shard-records", type=click.IntRange(1), metavar="N", help="Write shards of N records.")
@options.where
@click.option(
    "--fraction", type=float, metavar="SHARE", help="A random share of the records, such as 0.8; the rest apart."
)
@click.option("--seed", type=int, default=0, metavar="SEED", help="Another seed, another share of --fraction.")
@click.option(
    "--rest-path",
    metavar="PATH",
    type=options.PATH,
    help="With --where or --fraction, the dataset of all other records.",
)
@options.overwrite
@options.from_source
@options.as_json
def split(
    sources: tuple[str, ...],
    destination: str,
    shards: int | None,
    shard_records: int | None,
    where: Any,
    fraction: float | None,
    seed: int,
    rest_path: str | None,
    overwrite: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Copy a dataset into shards, or into two datasets.

    Records are not decoded, and keep their order. Every checksum is verified, and copied with its record. A damaged
    record stops the split: nothing is left behind, and the exit code is 1. The folder of the shards is one dataset, and
    so is each shard.
    """
    from dataformats.merging import split as divided

    options.check_sources(sources, destination)
    given = sum(option is not None for option in (shards, shard_records, where, fraction))
    divides = where is not None or fraction is not None
    if divides and rest_path is None and len(sources) > 1:
        sources, destination, rest_path = sources[:-1], sources[-1], destination
    if given != 1 or divides != (rest_path is not None):
        what = "expected one of --shards, --shard-records, or --where or --fraction with a path for the rest"
        raise click.BadParameter(what)
    if fraction is not None and not 0 < fraction < 1:
        raise click.BadParameter(f"expected a share between 0 and 1, found {fraction:g}", param_hint="--fraction")
    arguments: dict[str, Any] = {
        "shards": shards,
        "shard_records": shard_records,
        "where": where,
        "fraction": fraction,
        "seed": seed,
        "rest_path": rest_path,
        "overwrite": overwrite,
        "source_options": options.source_options(**reading),
    }
    with report_failures_of(where=arguments["where"]), bar("splitting") as progress:
        counts = divided(options.one_or_all(sources), destination, progress=progress, **arguments)
    print_counts(counts, as_json)
