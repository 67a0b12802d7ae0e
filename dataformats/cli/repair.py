"""`dataformats repair`: save what can be saved of a damaged dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.exit_codes import FINDING
from dataformats.cli.output import print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.interfaces import Loss
    from dataformats.repairing import RepairReport


@options.path_argument("source", "SOURCE", "A file, a folder, a URL or a quoted glob.")
@options.path_argument(
    "destination", "DESTINATION", "The new file; a new folder for shards, and for Granular datasets."
)
@options.of("dataformats.repairing:repair")
@options.source("format", "payload")
@options.as_json
def repair(source: str, destination: str, as_json: bool, **given: Any) -> None:
    """Copy the sound records of damaged files into new files.

    Each loss is reported with its file, bytes, records and cause, and the exit code is 1 if there is any. SOURCE is
    never changed.
    """
    from dataformats.repairing import repair as repaired

    arguments = options.source_options(given)
    with bar("repairing", "bytes") as progress:
        report = repaired(source, destination, progress=progress, source_options=arguments, **given)
    print_json(report.to_json()) if as_json else _print_report(report)
    if not report.ok:
        raise SystemExit(FINDING)


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
