"""`dataformats stats`: statistics of each field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options
from dataformats.cli.exit_codes import FINDING, in_options
from dataformats.cli.output import can_print, format_count, print_fact, print_json
from dataformats.cli.progress import bar
from dataformats.display.text import type_text, with_class_name

if TYPE_CHECKING:
    from dataformats.interfaces.record_source import RecordSource
    from dataformats.reading.running_statistics import Histogram, Largest
    from dataformats.reading.stats import FieldStats, RunningStats
    from dataformats.spec import Type

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#@"  # the lowest is of bins that are not empty
_BARS, _SHOWN = 40, 10


@options.paths
@options.fields
@options.option("largest", "int", "How many of the largest values to list.", 10, type=click.IntRange(0, 1000))
@options.reading
@options.checksums
@options.as_json
def stats(paths: str | list[str], fields: list[str] | None, largest: int, as_json: bool, **reading: Any) -> None:
    """Show the distribution and the largest values of each field.

    These are range, mean, histogram, most common and largest values. For text, bytes and sequences, they describe the
    lengths; for images and videos, the stored bytes. All records are read once. Damaged records are left out and
    listed, and the exit code is 1.
    """
    from dataformats.reading.opening import open as open_source

    with open_source(paths, **options.arguments(reading)) as source:
        running = _scan(source, fields, largest)
        found = running.snapshot()
        if as_json:
            print_json(_as_json(running, found))
        else:
            print_fact("records", running.records)
            for name, field in found.items():
                _print_field(name, source.spec[name], field)
            _print_failures(running)
    if running.n_failed:
        raise SystemExit(FINDING)


def _scan(source: RecordSource, fields: Sequence[str] | None, largest: int) -> RunningStats:
    from dataformats.reading.stats import scan_stats

    scan = scan_stats(source, fields, largest)
    running = next(scan)  # the same after each batch
    with bar("reading") as progress:
        for _ in scan:
            if progress is not None:
                progress(running.records, len(source))
    return running


def _as_json(running: RunningStats, stats: dict[str, FieldStats]) -> dict[str, Any]:
    from dataformats.display.json_values import as_json
    from dataformats.inspecting.finding import Finding

    findings = [asdict(Finding.of(error, index)) for index, error in running.failures.items()]
    fields = {name: as_json(asdict(field)) for name, field in stats.items()}
    return {"records": running.records, "failed": running.n_failed, "findings": findings, "fields": fields}


def _print_field(name: str, kind: Type, field: FieldStats) -> None:
    from dataformats.display.value_text import as_text

    print_fact(f"field {name}", type_text(kind))
    print_fact("  count", f"{field.count}, {field.missing} missing" if field.missing else field.count)
    if field.nans or field.infinite:
        print_fact("  not finite", f"{field.nans} NaN, {field.infinite} infinite")
    if field.minimum is not None:
        facts = [_number(value) for value in (field.minimum, field.maximum, field.mean, field.std)]
        print_fact("  length" if field.of_lengths else "  range", "{} to {}, mean {}, std {}".format(*facts))
    if field.histogram is not None:
        print_fact("  histogram", _bars(field.histogram))
    if field.distinct is not None:
        print_fact("  distinct", field.distinct)
    if field.most_common and field.most_common[0][1] > 1:
        common = field.most_common[:_SHOWN]
        texts = (f"{with_class_name(as_text(value), value, kind.class_names)} ({n})" for value, n in common)
        print_fact("  most common", ", ".join(texts))
    _print_largest(field.largest)


def _print_largest(largest: Sequence[Largest]) -> None:
    if any(one.text for one in largest):
        for one in largest:
            print_fact("  largest", f"{_number(one.size)} in record {one.index}{one.text and f': {one.text}'}")
    elif largest:
        print_fact("  largest", ", ".join(f"{_number(one.size)} in record {one.index}" for one in largest))


def _print_failures(running: RunningStats) -> None:
    from dataformats.inspecting.finding import Finding

    for index, error in list(running.failures.items())[:_SHOWN]:
        found = Finding.of(error, index)
        print_fact("finding", f"{found.kind}: {in_options(found.message, found.remedy)}")
    if running.n_failed:
        numbers = ", ".join(map(str, running.failures))
        more = ", ..." if running.n_failed > len(running.failures) else ""
        print_fact("damaged", f"{format_count(running.n_failed, 'record')}, left out: {numbers}{more}")


def _bars(histogram: Histogram) -> str:
    """Return the range with a character for each bin, or for several ones of a long histogram."""
    counts, edges = histogram.counts, histogram.edges
    step = -(-len(counts) // _BARS)
    sums = [sum(counts[first : first + step]) for first in range(0, len(counts), step)]
    levels = _BLOCKS if can_print(_BLOCKS) else _ASCII
    bars = "".join(levels[(n * len(levels) - 1) // max(sums)] if n else " " for n in sums)
    width = (edges[1] - edges[0]) * step
    return f"{_number(edges[0])} |{bars}| {_number(edges[0] + width * len(sums))}, at most {max(sums)} in a bar"


def _number(value: float | None) -> str:
    """Return whole numbers in full, others with six digits."""
    if value is None:
        return ""
    return str(int(value)) if value == value // 1 and abs(value) < 2**63 else f"{value:.6g}"
