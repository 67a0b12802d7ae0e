"""`dataformats merge`: copy datasets of one format into one."""

from __future__ import annotations

from typing import Any

from dataformats.cli import options
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar


@options.sources
@options.path_argument(
    "destination", "DESTINATION", "The new file; a new folder with --shards, and for Granular datasets."
)
@options.shards
@options.overwrite
@options.from_source
@options.as_json
def merge(
    sources: tuple[str, ...], destination: str, shards: int | None, overwrite: bool, as_json: bool, **reading: Any
) -> None:
    """Copy datasets of one format into one, without decoding.

    They have the same payload and spec. Every checksum is verified, and copied with its record. A damaged record stops
    the merge: nothing is left behind, and the exit code is 1.
    """
    from dataformats.merging import merge as merged

    options.check_sources(sources, destination)
    source_options = options.source_options(**reading)
    with bar("merging") as progress:
        counts = merged(
            sources, destination, shards=shards, overwrite=overwrite, progress=progress, source_options=source_options
        )
    print_counts(counts, as_json)


def print_counts(counts: dict[str, int], as_json: bool) -> None:
    """Print path and records of new files."""
    if as_json:
        print_json({"files": [{"path": path, "records": records} for path, records in counts.items()]})
        return
    for path, records in counts.items():
        print_fact(path, format_count(records, "record"))
