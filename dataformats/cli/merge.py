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
@options.of("dataformats.merging:merge")
@options.source("format", "payload")
@options.as_json
def merge(sources: tuple[str, ...], destination: str, as_json: bool, **given: Any) -> None:
    """Copy datasets of one format into one, without decoding.

    They have the same payload and spec. Every checksum is verified, and copied with its record. A damaged record stops
    the merge: nothing is left behind, and the exit code is 1.
    """
    from dataformats.merging import merge as merged

    options.check_sources(sources, destination)
    source = options.source_options(given)
    with bar("merging") as progress:
        counts = merged(sources, destination, progress=progress, source_options=source, **given)
    print_counts(counts, as_json)


def print_counts(counts: dict[str, int], as_json: bool) -> None:
    """Print path and records of new files."""
    if as_json:
        print_json({"files": [{"path": path, "records": records} for path, records in counts.items()]})
        return
    for path, records in counts.items():
        print_fact(path, format_count(records, "record"))
