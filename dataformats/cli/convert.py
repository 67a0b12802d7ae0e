"""`dataformats convert`: write records in another format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options, signatures
from dataformats.cli.executors import in_workers, worker_options
from dataformats.cli.exit_codes import FINDING, INTERRUPTED
from dataformats.cli.functions import report_failures_of
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.converting.report import ConvertReport

_CONVERT = "dataformats.converting:convert"
_WORKER_BYTES = 32 * 2**20  # starting a process takes as long as converting some megabytes


@options.sources
@options.path_argument(
    "destination", "DESTINATION", "The new file; a new folder with --shard-*, and for Granular datasets."
)
@options.of(_CONVERT)
@options.option("compression", "", "The compression of the new files: one that their format has, or none.")
@options.option("to_option", "**", "An option of the new format, such as row_group_records=1000; repeat it.")
@worker_options("one for each processor, fewer if SOURCE is small")
@options.source("format", "payload", "spec")
@options.as_json
def convert(sources: tuple[str, ...], destination: str, as_json: bool, **given: Any) -> None:
    """Write records in another format, or in other shards.

    Every checksum is verified, and the new data are read back. A record that fails stops the conversion, or is omitted
    by --on-corrupt omit; the exit code is 1. DESTINATION appears when it is complete. After an interruption, the same
    command with --resume continues.

    Records whose payload stays the same are copied byte by byte, and so are images and other blobs whose codec stays
    the same. --fields selects fields, by their old names. --spec changes the types of some fields, by their new names:
    types that the files do not declare, or new types. They are saved beside DESTINATION.

    On a cluster with a shared file system, each of N jobs runs the command with --part I/N, I from 0 to N-1, and then
    one runs it with --publish-parts. --shard-records gives the size of the shards that they share.
    """
    from dataformats.converting import convert as converted
    from dataformats.storage.remote.systems import is_url

    options.check_sources(sources, destination)
    paths, source = options.one_or_all(sources), options.source_options(given)
    where, resumes = given["where"], given["resume"] or given["part"] is not None or given["publish_parts"]
    if given["workers"] is None and given["engine"] is None and not given["publish_parts"]:
        given["workers"] = _default_workers(paths, source)
    if given["resume"] and given["shard_records"] is None and is_url(destination):
        raise click.BadParameter("missing; a conversion to a URL resumes by shards", param_hint="--shard-records")
    own = {"source", "path", *signatures.parameters(_CONVERT)}.intersection(given["to_option"] or ())
    if own:
        raise click.BadParameter(f"expected an option of a format, found {own.pop()!r}", param_hint="--to-option")
    given |= in_workers(given)
    with (
        _interruptible(destination, resumes),
        report_failures_of(where=where, map=given["map"]),
        bar("converting") as progress,
    ):
        report = converted(paths, destination, progress=progress, source_options=source, **options.arguments(given))
    print_json(asdict(report)) if as_json else _print_report(report, given["dry_run"])
    if where is not None and not report.records:
        print(f"dataformats: --where matches none of the records: {destination} is empty", file=sys.stderr)
    if report.omitted or (where is not None and not report.records):
        raise SystemExit(FINDING)


def _default_workers(paths: str | list[str], source_options: dict[str, Any]) -> int:
    """Return the number of worker processes for a conversion; 0 converts a small source in this process."""
    from dataformats.converting import opened_source
    from dataformats.storage.threads import N_THREADS

    with opened_source(paths, source_options) as source:
        n = min(N_THREADS, source.nbytes // _WORKER_BYTES)
    return n if n > 1 else 0


@contextmanager
def _interruptible(destination: str, resumes: bool) -> Iterator[None]:
    """Say how to continue after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        hint = "run the same command again" if resumes else "add --resume to the same command"
        is_kept = os.path.exists(f"{destination.rstrip('/')}.partial")
        print(f"dataformats: interrupted{f'; to continue, {hint}' if is_kept else ''}", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def _print_report(report: ConvertReport, dry_run: bool) -> None:
    print_fact("path", report.path)
    print_fact("format", report.format)
    if report.payload is not None:
        print_fact("payload", report.payload)
    print_fact("records", report.records)
    print_fact("records were" if not dry_run else "records would be", "copied" if report.copied else "rewritten")
    if report.left_out:
        print_fact("left out", ", ".join(report.left_out))
    if not dry_run:
        print_fact("files", report.files)
        print_fact("bytes", report.nbytes)
    if report.resumed:
        print_fact("resumed", format_count(report.resumed, "record"))
    for message in report.errors:
        print_fact("finding", message)
    if report.omitted:
        print_fact("omitted", format_count(report.omitted, "record"))
    print_fact("seconds", f"{report.seconds:.2f}")
