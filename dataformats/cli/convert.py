"""`dataformats convert`: write records in another format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options
from dataformats.cli.executors import in_workers, worker_options
from dataformats.cli.exit_codes import FINDING, INTERRUPTED
from dataformats.cli.functions import named_function, report_failures_of
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar
from dataformats.registry import backends, codecs

if TYPE_CHECKING:
    from dataformats.converting.report import ConvertReport

_WORKER_BYTES = 32 * 2**20  # starting a process takes as long as converting some megabytes


def _part(text: str | None) -> tuple[int, int] | None:
    """Return the two numbers of `I/N`."""
    if text is None:
        return None
    number, _, n = text.partition("/")
    if not (number.isdecimal() and n.isdecimal() and int(number) < int(n)):
        raise ValueError(f"expected I/N, with I from 0 to N-1, found {text!r}")
    return int(number), int(n)


@options.sources
@options.path_argument(
    "destination", "DESTINATION", "The new file; a new folder with --shard-*, and for Granular datasets."
)
@click.option(
    "--format",
    metavar="NAME",
    callback=options.parsed(options.format_name),
    shell_complete=options.complete_names(backends),
    help="The new format, if the name of DESTINATION does not show it.",
)
@options.fields
@options.rename
@options.spec
@click.option(
    "--payload",
    metavar="NAME",
    callback=options.parsed(options.payload_name),
    shell_complete=options.complete_names(codecs),
    help="The new codec of whole records; by default unchanged.",
)
@click.option(
    "--compression",
    metavar="NAME",
    shell_complete=options.complete_names(("gzip", "zlib", "zstd", "snappy", "lz4", "brotli", "none")),
    help="The compression of the new files: one that their format has, such as zstd for Parquet, or none.",
)
@options.to_option
@options.where
@click.option(
    "--map",
    metavar="MODULE:FUNCTION",
    callback=options.parsed(named_function),
    help="A function in Python from a record to a new one.",
)
@options.shuffle_seed
@options.limit
@click.option(
    "--on-corrupt",
    type=click.Choice(["raise", "omit"]),
    default="raise",
    help="Stop at a record that fails, or omit it: then the exit code is 1.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted conversion with equal options.")
@click.option("--verify/--no-verify", default=True, help="Read back what was written.")
@click.option("--dry-run", is_flag=True, help="Check the options and the first records; write nothing.")
@options.overwrite
@options.section(
    "Shard options",
    click.option("--shard-records", type=click.IntRange(1), metavar="N", help="Start a new file after N records."),
    click.option("--shard-bytes", type=click.IntRange(1), metavar="N", help="Start a new file before one has N bytes."),
    click.option(
        "--part",
        metavar="I/N",
        callback=options.parsed(_part),
        help="Write only the shards I, I+N, ..., and publish nothing: one of N jobs, from 0 on.",
    ),
    click.option("--publish-parts", is_flag=True, help="Publish the shards of all parts; convert nothing."),
)
@worker_options("one for each processor, fewer if SOURCE is small")
@options.from_source
@options.from_spec
@options.as_json
def convert(
    sources: tuple[str, ...],
    destination: str,
    format: str | None,
    compression: str | None,
    to_option: dict[str, Any],
    part: tuple[int, int] | None,
    publish_parts: bool,
    workers: int | None,
    engine: str | None,
    address: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Write records in another format, or in other shards.

    Every checksum is verified, and the new data are read back. A record that fails stops the conversion, and the exit
    code is 1. DESTINATION appears when it is complete. After an interruption, the same command with --resume continues.

    Records whose payload stays the same are copied byte by byte, and so are images and other blobs whose codec stays
    the same. --fields selects fields, by their old names. --spec changes the types of some fields, by their new names:
    types that the files do not declare, or new types. They are saved beside DESTINATION.

    On a cluster with a shared file system, each of N jobs runs the command with --part I/N, I from 0 to N-1, and then
    one runs it with --publish-parts. --shard-records gives the size of the shards that they share.
    """
    from dataformats.converting import convert as converted
    from dataformats.storage.remote.systems import is_url
    from dataformats.writing.output_schema import format_of

    options.check_sources(sources, destination)
    reading = {name: given.pop(name) for name in list(given) if name.startswith("from_")}
    paths, source = options.one_or_all(sources), options.source_options(**reading)
    shard_records, resume, where = given["shard_records"], given["resume"], given["where"]
    if part is not None and publish_parts:
        raise click.BadParameter("it follows when all parts are written", param_hint="--publish-parts")
    if (part is not None or publish_parts) and (shard_records is None or given["shard_bytes"] is not None):
        what = "missing; --part and --publish-parts need it, without --shard-bytes"
        raise click.BadParameter(what, param_hint="--shard-records")
    if resume and shard_records is None and is_url(destination):
        raise click.BadParameter("missing; a conversion to a URL resumes by shards", param_hint="--shard-records")
    chosen = format or format_of(destination)
    given |= _format_options(chosen, compression, to_option) | {"part": part, "publish_parts": publish_parts}
    if engine is None and workers is None and not publish_parts:
        workers = _default_workers(paths, source)
    given |= in_workers(workers, engine, address)
    with (
        _interruptible(destination, resume or part is not None or publish_parts),
        report_failures_of(where=where, map=given["map"]),
        bar("converting") as progress,
    ):
        report = converted(paths, destination, chosen, progress=progress, source_options=source, **given)
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


def _format_options(format: str, compression: str | None, more: dict[str, Any]) -> dict[str, Any]:
    """Return the options for new files; each must be one of the format's."""
    from dataformats.interfaces import checked_options

    given = more if compression is None else more | {"compression": compression}
    for name, value in given.items():
        try:
            checked_options(backends.get(format), "create", {name: value})
        except TypeError as error:
            hint = "--compression" if name not in more else "--to-option"
            raise click.BadParameter(str(error), param_hint=hint) from error
    return given


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
