"""A source as text, and as a table of its first records for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dataformats.display.record_table import SUMMARY, SUMMARY_RECORDS, NotebookTable, TableLimits, error_html
from dataformats.display.text import type_text
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.undecoded import leave_undecoded
from dataformats.spec import Type


def text_of(source: RecordSource) -> str:
    """Return class, format, size and types of a source, a line each."""
    spec: Mapping[str, Type] = declared_spec(source) or {}
    width = max((len(name) for name in spec), default=0)
    return "\n".join([*_headlines(source), *(f"  {name:{width}}  {type_text(kind)}" for name, kind in spec.items())])


def html_of(source: RecordSource) -> str:
    """Return a table of the first records, or the error of the source."""
    try:
        return table_of(source, SUMMARY_RECORDS, SUMMARY).html
    except Exception as error:  # a notebook shows what it can
        return error_html(error)


def table_of(source: RecordSource, n: int, limits: TableLimits) -> NotebookTable:
    """Return a table of the first `n` records, with pictures; damaged records show their errors."""
    n, spec = min(len(source), n), declared_spec(source)
    return NotebookTable.of("; ".join(_headlines(source)), spec or {}, n, row_reader(source), limits)


def row_reader(source: RecordSource) -> Callable[[int], tuple[int, Any]]:
    """Return a function that returns an index with its record, images as stored, or with the error of reading it."""
    shown = source if declared_spec(source) is None else leave_undecoded(source)

    def read(index: int) -> tuple[int, Any]:
        try:
            return index, shown[index]
        except Exception as error:  # a function of the user may raise, too
            return index, error

    return read


def _headlines(source: RecordSource) -> list[str]:
    n = len(source.paths)
    files = f", from {n} file{'s' if n > 1 else ''} of {source.nbytes:,} bytes" if n else ""
    lines = [f"{type(source).__name__.strip('_')}: {source.format}, {len(source):,} records{files}"]
    return lines if source.payload is None else [*lines, f"payload: {source.payload}"]
