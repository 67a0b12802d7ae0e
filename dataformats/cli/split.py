"""`dataformats split`: copy a dataset into shards, or into two datasets."""

from __future__ import annotations

from typing import Any

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
@options.of("dataformats.merging:split")
@options.source("format", "payload")
@options.as_json
def split(sources: tuple[str, ...], destination: str, as_json: bool, **given: Any) -> None:
    """Copy a dataset into shards, or into two datasets.

    Records are not decoded, except records of tables, and keep their order. Every checksum is verified, and copied
    with its record. A damaged record stops the split: nothing is left behind, and the exit code is 1. The folder of the
    shards is one dataset, and so is each shard.
    """
    from dataformats.merging import split as divided

    options.check_sources(sources, destination)
    divides = given["where"] is not None or given["fraction"] is not None
    if divides and given["rest_path"] is None and len(sources) > 1:
        sources, destination, given["rest_path"] = sources[:-1], sources[-1], destination
    source = options.source_options(given)
    with report_failures_of(where=given["where"]), bar("splitting") as progress:
        counts = divided(options.one_or_all(sources), destination, progress=progress, source_options=source, **given)
    print_counts(counts, as_json)
