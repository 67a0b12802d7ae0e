"""A source as text, and as a table of its first records for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataformats.display.notebook import SHOWN_RECORDS, error_html, records_html
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.undecoded import leave_undecoded

__all__ = ["html_of", "text_of"]


def text_of(source: RecordSource) -> str:
    """Return class, format, size and types of a source, a line each."""
    spec: Mapping[str, object] = declared_spec(source) or {}
    width = max((len(name) for name in spec), default=0)
    return "\n".join([*_headlines(source), *(f"  {name:{width}}  {kind}" for name, kind in spec.items())])


def html_of(source: RecordSource) -> str:
    """Return a table of the first records, with pictures; damaged records show their errors."""
    try:
        spec = declared_spec(source)
        shown = source if spec is None else leave_undecoded(source)
        first = [(index, _record_or_error(shown, index)) for index in range(min(len(source), SHOWN_RECORDS))]
        return records_html("; ".join(_headlines(source)), spec or {}, first)
    except Exception as error:  # a notebook shows what it can
        return error_html(error)


def _headlines(source: RecordSource) -> list[str]:
    n = len(source.paths)
    files = f", from {n} file{'s' if n > 1 else ''} of {source.nbytes:,} bytes" if n else ""
    lines = [f"{type(source).__name__.strip('_')}: {source.format}, {len(source):,} records{files}"]
    return lines if source.payload is None else [*lines, f"payload: {source.payload}"]


def _record_or_error(source: RecordSource, index: int) -> Any:
    try:
        return source[index]
    except Exception as error:  # a function of the user may raise, too
        return error
