"""`dataformats diff`: fields, numbers of records and values in which two datasets differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.exit_codes import FINDING, in_options
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.inspecting.diff_report import DiffReport


@options.path_argument("first", "A", "A file, a folder, a URL or a quoted glob.")
@options.path_argument("second", "B", "Another one, of any format.")
@options.of("dataformats.inspecting.diff_report:diff")
@options.source("format", "payload")
@options.as_json
def diff(first: str, second: str, as_json: bool, **given: Any) -> None:
    """Compare the fields and the records of two datasets.

    Record i of A is compared with record i of B, bit by bit. The first ten differences of each field are shown, and all
    are counted. The exit code is 1 if the datasets differ.
    """
    from dataformats.inspecting.diff_report import diff as compared

    source = options.source_options(given)
    with bar("comparing") as progress:
        report = compared(first, second, progress=progress, source_options=source, **given)
    print_json(report.to_json()) if as_json else _print_report(report)
    if not report.equal:
        raise SystemExit(FINDING)


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
