"""`dataformats diff`: fields, numbers of records and values in which two datasets differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dataformats.cli.exit_codes import FINDING, in_options
from dataformats.cli.options import AsJson, FieldNames, split_names
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.inspecting import DiffReport

__all__ = ["diff"]

First = Annotated[str, typer.Argument(metavar="A", help="A file, a folder, a URL or a quoted glob.")]
Second = Annotated[str, typer.Argument(metavar="B", help="Another one, of any format.")]
Limit = Annotated[int | None, typer.Option(min=0, metavar="N", help="Compare only the first N records.")]


def diff(first: First, second: Second, fields: FieldNames = None, limit: Limit = None, as_json: AsJson = False) -> None:
    """Compare the fields and the records of two datasets.

    Record i of A is compared with record i of B, bit by bit. The first ten differences of each field are shown, and all
    are counted. The exit code is 1 if the datasets differ.
    """
    from dataformats.inspecting import diff as compared

    with bar("comparing") as progress:
        report = compared(first, second, fields=split_names(fields), limit=limit, progress=progress)
    print_json(report.to_json()) if as_json else _print_report(report)
    if not report.equal:
        raise typer.Exit(FINDING)


def _print_report(report: DiffReport) -> None:
    print_fact("a", report.paths[0])
    print_fact("b", report.paths[1])
    print_fact("records", _both(*report.records))
    if report.compared < min(report.records):
        print_fact("compared", report.compared)
    for name, types in report.fields.items():
        print_fact(f"field {name}", _both(*(kind or "missing" for kind in types)))
    for finding in report.findings:
        if finding.kind == "Difference":
            place = f"record {finding.index}" + ("" if finding.field is None else f", field {finding.field}")
            print_fact(place, f"{finding.expected} | {finding.found}")
        else:
            print_fact("damaged", f"{finding.kind}: {in_options(finding.message, finding.remedy)}")
    for name, n in report.differences.items():
        print_fact(f"differences in {name}", format_count(n, "record"))
    if report.compared and not report.differences and not report.equal:
        print_fact("differences", f"none in the first {format_count(report.compared, 'record')}")
    if report.damaged:
        print_fact("damaged records", report.damaged)
    print_fact("equal", "yes" if report.equal else "no")


def _both(first: object, second: object) -> str:
    return str(first) if first == second else f"{first} | {second}"
