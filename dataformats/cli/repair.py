"""`dataformats repair`: save what can be saved of a damaged dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dataformats.cli.exit_codes import FINDING
from dataformats.cli.options import AsJson, FromFormat, FromPayload, reading_source
from dataformats.cli.output import print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.interfaces import Loss
    from dataformats.repairing import RepairReport

__all__ = ["repair"]

SourcePath = Annotated[str, typer.Argument(metavar="SOURCE", help="A file, a folder, a URL or a quoted glob.")]
DestinationPath = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="The new file; a new folder for shards, and for Granular datasets.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report, and write nothing.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace DESTINATION if it exists.")]


def repair(
    source: SourcePath,
    destination: DestinationPath,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    from_format: FromFormat = None,
    from_payload: FromPayload = None,
    as_json: AsJson = False,
) -> None:
    """Copy the sound records of damaged files into new files.

    Each loss is reported with its file, bytes, records and cause, and the exit code is 1 if there is any. SOURCE is
    never changed.
    """
    from dataformats.repairing import repair as repaired

    with bar("repairing", "bytes") as progress:
        report = repaired(
            source,
            destination,
            dry_run=dry_run,
            overwrite=overwrite,
            progress=progress,
            source_options=reading_source(from_format, from_payload, None),
        )
    print_json(report.to_json()) if as_json else _print_report(report)
    if not report.ok:
        raise typer.Exit(FINDING)


def _print_report(report: RepairReport) -> None:
    print_fact("path", report.path if report.is_written else f"{report.path}, not written: this is a dry run")
    print_fact("format", report.format)
    if report.payload is not None:
        print_fact("payload", report.payload)
    for note in report.notes:
        print_fact("note", note)
    for name in report.missing_files:
        print_fact("missing", name)
    for loss in report.losses:
        print_fact("loss", _described(loss))
    if report.n_losses > len(report.losses):
        print_fact("loss", f"and {report.n_losses - len(report.losses)} more")
    print_fact("records kept", report.kept)
    print_fact("records lost", f"{report.lost}, and an unknown number" if report.n_unknown else report.lost)
    print_fact("seconds", f"{report.seconds:.2f}")


def _described(loss: Loss) -> str:
    """Return `FILE, bytes 368 to 391, record 3: cause`."""
    where = loss.path
    if loss.start is not None and loss.stop is not None:
        where += f", bytes {loss.start} to {loss.stop}"
    if loss.index is not None and loss.records:
        last = loss.index + loss.records - 1
        where += f", record {loss.index}" if loss.records == 1 else f", records {loss.index} to {last}"
    return f"{where}: {loss.cause}"
