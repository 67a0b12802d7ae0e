"""`dataformats verify`: every length, every checksum, every record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.executors import in_workers, worker_options
from dataformats.cli.exit_codes import FINDING, in_options
from dataformats.cli.functions import report_failures_of
from dataformats.cli.output import format_count, print_fact, print_json, why_opaque
from dataformats.cli.progress import bar
from dataformats.spec import Type

if TYPE_CHECKING:
    from dataformats.inspecting.finding_groups import FindingGroup
    from dataformats.inspecting.verification import VerifyReport


@options.paths
@options.of("dataformats.inspecting.verification:verify")
@options.reading
@options.source("format", "payload", "spec")
@worker_options("this one alone, whose reads use all processors")
@options.as_json
def verify(paths: str | list[str], as_json: bool, **given: Any) -> None:
    """Check every length, checksum and record.

    Records must match their payload and fields. A bad record is reported with its file, index, and byte or field;
    findings that differ only in these are reported once, with their number and the first records. The exit code is then
    1. Fields that no codec decodes are read and listed.

    With --against, record i must be equal to record i of SOURCE: in its stored bytes, or in every value. The first ten
    differences of each field are reported, and all are counted. Give --fields, --rename, --where, --shuffle-seed and
    --limit as in the conversion.
    """
    from dataformats.inspecting.verification import verify as verified

    source = options.source_options(given)
    executor = in_workers(given)
    with report_failures_of(where=given["where"]), bar("verifying") as progress:
        report = verified(paths, progress=progress, source_options=source, **executor, **options.arguments(given))
    print_json(report.to_json()) if as_json else print_report(report)
    if not report.ok:
        raise SystemExit(FINDING)


def print_report(report: VerifyReport) -> None:
    """Print a report, equal findings as one."""
    print_fact("path", report.path)
    print_fact("format", report.format or "none: it could not be opened")
    if report.against is not None:
        print_fact("against", report.against)
    print_fact("records", report.records)
    print_fact("bytes", report.nbytes)
    for name, kind in report.opaque.items():
        print_fact(f"field {name}", f"{why_opaque(Type.named(kind))}; read, not decoded")
    for group in report.groups:
        _print_group(group)
    for name, n in report.differences.items():
        print_fact(f"differences in {name}", format_count(n, "record"))
    unlisted = report.n_findings - sum(group.count for group in report.groups)
    if unlisted:
        print_fact("more findings", f"{unlisted}; --max-findings lists more")
    print_fact("findings", report.n_findings)


def _print_group(group: FindingGroup) -> None:
    example, n = group.example, group.count
    times = "" if n == 1 else f", {n} times"
    print_fact("finding", f"{group.kind}{times}: {in_options(example.message, example.remedy)}")
    if example.remedy is not None and not example.message.endswith(example.remedy):
        print_fact("  next", example.remedy)
    if n > 1 and group.indices:
        more = f" and {n - len(group.indices)} more" if n > len(group.indices) else ""
        print_fact("  records", ", ".join(map(str, group.indices)) + more)
    elif n > 1 and group.paths:
        print_fact("  files", ", ".join(group.paths))
