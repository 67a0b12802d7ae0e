"""`dataformats verify`: every length, every checksum, every record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from dataformats.cli.exits import FINDING, in_options
from dataformats.cli.opaque import opaque_in, said_of
from dataformats.cli.options import AsJson, Format, Paths, Payload, SpecTexts, one_or_all, reading
from dataformats.cli.output import fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.inspecting import VerifyReport
    from dataformats.spec import Type

__all__ = ["verify"]


def verify(
    paths: Paths,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    as_json: AsJson = False,
) -> None:
    """Check every length, checksum and record.

    Records are held against their payload and fields. Each bad one is named with its file, number, and byte or
    field, and the exit code is 1. Fields of a type that nothing decodes are read, and named.
    """
    from dataformats.inspecting import verify as verified

    path = one_or_all(paths)
    opaque, options = opaque_in(path, reading(format, payload, spec))
    with bar("verifying") as progress:
        report = verified(path, progress=progress, **options)
    if as_json:
        print_json(report.to_json() | {"opaque": {name: str(kind) for name, kind in opaque.items()}})
    else:
        _print_report(report, opaque)
    if not report.ok:
        raise typer.Exit(FINDING)


def _print_report(report: VerifyReport, opaque: Mapping[str, Type]) -> None:
    fact("path", report.path)
    fact("format", report.format or "none: it could not be opened")
    fact("records", report.records)
    fact("bytes", report.nbytes)
    for name, kind in opaque.items():
        fact(f"field {name}", f"{said_of(kind)}; read, not decoded")
    for finding in report.findings:
        fact("finding", f"{finding.kind}: {in_options(finding.message, finding.remedy)}")
    fact("findings", len(report.findings))
