"""Records as a table in HTML, for notebooks."""

from __future__ import annotations

import base64
import html
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dataformats.display.media import media_of, thumbnail
from dataformats.display.text import escape_text
from dataformats.display.value_text import as_text
from dataformats.spec import VALUE

__all__ = ["SHOWN_RECORDS", "error_html", "records_html"]

SHOWN_RECORDS = 5
"""A table has as many records."""

_MOST_BYTES = 90_000
_CHARACTERS, _ERROR_CHARACTERS = 100, 300
_SIZE, _THUMBNAIL_BYTES = 64, 9_000  # pixels, bytes
_CELL = "text-align: left; vertical-align: top; border: 1px solid rgba(128, 128, 128, 0.4); padding: 2px 6px"
_TABLE = "border-collapse: collapse; color: inherit; background: transparent"  # fits light and dark notebooks
_PICTURE = "min-width: 32px; image-rendering: pixelated; background: transparent"


def records_html(title: str, types: Mapping[str, object], records: Sequence[tuple[int, Any]]) -> str:
    """Return a table with a row for each field and a column for each record, of at most some 100 KB.

    Args:
        title: Stands above it.
        types: Field to type.
        records: Pairs of a number and a record, or the error of reading it. A record that is no dict has the field
            `"value"`.
    """
    fields = [_fields(record) for _, record in records]
    names = list(dict.fromkeys(itertools.chain(types, *fields))) or [VALUE]
    rows = [_row(map(_text, ("field", "type", *(str(number) for number, _ in records))), "th")]
    n_bytes = 0
    for name in names:
        if n_bytes > _MOST_BYTES:
            break
        cells = [_cell(record, held, name) for (_, record), held in zip(records, fields, strict=True)]
        rows.append(_row([_text(str(name)), _text(str(types.get(name, ""))), *cells]))
        n_bytes += len(rows[-1])
    hidden = len(names) - len(rows) + 1
    more = f"<div>{hidden} more fields</div>" if hidden else ""
    return f"<div>{_text(title, len(title))}</div><table style='{_TABLE}'>{''.join(rows)}</table>{more}"


def error_html(error: Exception) -> str:
    """Return an error in one line."""
    return f"<em>{_text(f'{type(error).__name__}: {error}', _ERROR_CHARACTERS)}</em>"


def _fields(record: Any) -> Mapping[Any, Any]:
    if isinstance(record, Exception):
        return {}
    return record if isinstance(record, Mapping) else {VALUE: record}


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag} style={_CELL!r}>{cell}</{tag}>' for cell in cells)}</tr>"


def _cell(record: Any, fields: Mapping[Any, Any], name: Any) -> str:
    """Return a value as a picture or as text, or the error of the record."""
    if isinstance(record, Exception):
        return error_html(record)
    if name not in fields:
        return "<em>missing</em>"
    try:
        return _picture(fields[name]) or _text(as_text(fields[name]))
    except Exception as error:  # the `repr` of a value may raise anything
        return error_html(error)


def _picture(value: Any) -> str | None:
    """Return an image as an `<img>` with a data URI; `None` if the value is no image, or too large."""
    try:
        picture = thumbnail(value, _SIZE)
    except ValueError:
        return None
    media = media_of(picture)
    if media is None or len(picture) > _THUMBNAIL_BYTES:
        return None
    source = f"data:{media.mime};base64,{base64.b64encode(picture).decode()}"
    return f"<img src='{source}' title='{_text(as_text(value))}' style='{_PICTURE}'>"


def _text(text: str, n: int = _CHARACTERS) -> str:
    """Return text cut and escaped."""
    return html.escape(escape_text(text if len(text) <= n else f"{text[:n]}..."))
