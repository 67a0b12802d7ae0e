"""`dataformats merge`: copy datasets of one format into one."""

from __future__ import annotations

from typing import Annotated

import typer

from dataformats.cli.convert import Overwrite, Sources
from dataformats.cli.options import AsJson, FromFormat, FromPayload, open_arguments
from dataformats.cli.output import print_fact, print_json
from dataformats.cli.progress import bar

__all__ = ["Shards", "merge", "print_counts"]

Destination = Annotated[
    str,
    typer.Argument(metavar="DESTINATION", help="The new file; a new folder with --shards, and for Granular datasets."),
]
Shards = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Write N shards whose sizes differ by one record at most.")
]


def merge(
    sources: Sources,
    destination: Destination,
    shards: Shards = None,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    as_json: AsJson = False,
) -> None:
    """Copy datasets of one format into one, without decoding.

    They have the same payload and spec. Every checksum is verified, and copied with its record. A damaged record stops
    the merge: nothing is left behind, and the exit code is 1.
    """
    from dataformats.merging import merge as merged

    if not sources:  # `convert` does the same
        raise typer.BadParameter(f"missing; found only {destination!r}", param_hint="DESTINATION")
    options = open_arguments(from_format, from_payload, None)
    with bar("merging") as progress:
        counts = merged(
            sources, destination, shards=shards, overwrite=overwrite, progress=progress, source_options=options
        )
    print_counts(counts, as_json)


def print_counts(counts: dict[str, int], as_json: bool) -> None:
    """Print path and records of new files."""
    if as_json:
        print_json({"files": [{"path": path, "records": records} for path, records in counts.items()]})
        return
    for path, records in counts.items():
        print_fact(path, f"{records} records")
