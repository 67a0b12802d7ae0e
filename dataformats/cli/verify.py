"""`dataformats verify`: every length, every checksum, every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dataformats.cli.exit_codes import FINDING, in_options
from dataformats.cli.options import AsJson, Format, Paths, Payload, SpecTexts, one_or_all, reading
from dataformats.cli.output import fact, print_json, why_opaque
from dataformats.cli.progress import bar
from dataformats.spec import Type

if TYPE_CHECKING:
    from dataformats.inspecting import VerifyReport

__all__ = ["verify"]


def verify(
    paths: Paths,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    as_json: AsJson = False,
) -> None:
    """Check every length, checksum and record.

    Records must match their payload and fields. Each bad record is reported with its file, index, and byte or field,
    and the exit code is 1. Fields that no codec decodes are read and listed.
    """
    from dataformats.inspecting import verify as verified

    with bar("verifying") as progress:
        report = verified(one_or_all(paths), progress=progress, **reading(format, payload, spec))
    print_json(report.to_json()) if as_json else _print_report(report)
    if not report.ok:
        raise typer.Exit(FINDING)


def _print_report(report: VerifyReport) -> None:
    fact("path", report.path)
    fact("format", report.format or "none: it could not be opened")
    fact("records", report.records)
    fact("bytes", report.nbytes)
    for name, kind in report.opaque.items():
        fact(f"field {name}", f"{why_opaque(Type.named(kind))}; read, not decoded")
    for finding in report.findings:
        fact("finding", f"{finding.kind}: {in_options(finding.message, finding.remedy)}")
    fact("findings", len(report.findings))
