"""Records as a table in HTML, for notebooks and data cards: no scripts, pictures as data URIs."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataformats.display.cells import TABLE, Cell, cell
from dataformats.display.charts import line
from dataformats.display.conversation import Turn
from dataformats.display.media import thumbnail
from dataformats.display.text import escape_text
from dataformats.spec import VALUE

__all__ = ["NotebookTable"]

_Read = Callable[[int], tuple[int, Any]]
_NAME, _ERROR = 100, 300  # characters
_NUMBER = re.compile(r"(u?int|float)\d+\??")  # the types whose cells show a number
_STYLE = """<style>
.dataformats-records { overflow-x: auto; }
.dataformats-records table { border-collapse: collapse; color: inherit; background: transparent; }
.dataformats-records :is(td, th) { text-align: left; vertical-align: top; padding: 2px 6px; max-width: 24em;
  border: 1px solid rgba(128, 128, 128, .4); overflow-wrap: anywhere; font-weight: normal; white-space: normal; }
.dataformats-records .is-number { text-align: right; }
.dataformats-records .name { font-weight: bold; display: block; }
.dataformats-records :is(.type, .note, .missing) { opacity: .75; font-size: 90%; }
.dataformats-records .tiny { min-width: 32px; image-rendering: pixelated; background: transparent; }
</style>"""


@dataclass(frozen=True, slots=True)
class TableLimits:
    """How much a table shows.

    Attributes:
        fields: The most columns.
        nbytes: The bytes of HTML without pictures, up to which rows are added.
        picture_nbytes: The bytes of pictures, up to which pictures are added.
        size: The longest side of a picture in pixels.
    """

    fields: int
    nbytes: int
    picture_nbytes: int
    size: int


SUMMARY = TableLimits(20, 60_000, 60_000, 64)
"""The limits of a source or a batch as the result of a cell of a notebook."""
SUMMARY_RECORDS = 5
VIEW = TableLimits(50, 1_000_000, 4_000_000, 96)
"""The limits of `view`."""


@dataclass(frozen=True, slots=True, repr=False)
class NotebookTable:
    """Records as a table for notebooks, which show it as the result of a cell.

    Attributes:
        title: A line of text about the source.
        html: The table as HTML: pictures are data URIs, names and values are escaped, and there are no scripts.

    Example:
        >>> import dataformats
        >>> table = dataformats.open("tests/golden/real/photos.tfrecord").view(3)
        >>> table
        <NotebookTable of BlobSource: tfrecord, 12 records, from 1 file of 289,842 bytes; payload: example>
        >>> table.html.count("<img ")
        3
    """

    title: str
    html: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<NotebookTable of {escape_text(self.title)}>"

    @classmethod
    def of(cls, title: str, types: Mapping[str, object], n: int, read: _Read, limits: TableLimits) -> NotebookTable:
        """Return a table with a title; `table_rows` takes the other arguments."""
        head, rows, more = table_rows(types, n, read, limits)
        table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
        text = f"{_STYLE}<div class='dataformats-records'><div>{as_html(title, len(title))}</div>{table}"
        return cls(title, f"{text}<div>{more}</div></div>")


def table_rows(
    types: Mapping[str, object],
    n: int,
    read: _Read,
    limits: TableLimits,
    charts: Mapping[str, str] | None = None,
) -> tuple[str, list[str], str]:
    """Return the row of the names, a row for each record, and a text about fields and records that are left out.

    Args:
        types: Field to type; if empty, the records tell their fields.
        n: Number of records.
        read: Returns the index and the record of a row, or the error of reading it. A record that is no dict has the
            field `"value"`.
        limits: How much is shown.
        charts: Field to a small chart in SVG for its column.
    """
    found = [] if types else [*map(read, range(n))]  # results of a function
    names = list(types or dict.fromkeys(name for _, record in found for name in _fields(record, types))) or [VALUE]
    shown, charts = names[: limits.fields], charts or {}
    heads = (_head(name, str(types.get(name, "")), charts.get(name, "")) for name in shown)
    pictures, rows, nbytes = _Pictures(limits), list[str](), limits.nbytes
    while len(rows) < n and nbytes > 0:
        rows.append(_row(*(found[len(rows)] if found else read(len(rows))), shown, types, pictures))
        nbytes -= len(rows[-1].encode()) - pictures.take()
    counts = {"fields": len(names) - len(shown), "records": n - len(rows)}
    more = ", ".join(f"{count:,} more {noun}" for noun, count in counts.items() if count)
    return f"<tr><th scope='col' class='index'>record</th>{''.join(heads)}</tr>", rows, more


def error_html(error: Exception) -> str:
    """Return an error in one line."""
    return f"<em class='why'>{as_html(f'{type(error).__name__}: {error}', _ERROR)}</em>"


def as_html(text: str, n: int = _NAME) -> str:
    """Return text cut to `n` characters and escaped."""
    return html.escape(escape_text(text if len(text) <= n else f"{text[:n]}..."))


def bytes_text(n: float) -> str:
    """Return a size such as `12.3 KB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.1f} {unit}" if n < 100 and unit != "B" else f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:,.3g} TB"


def _fields(record: Any, types: Mapping[str, object]) -> Mapping[Any, Any]:
    if isinstance(record, Exception):
        return {}
    is_dict = isinstance(record, Mapping) and (VALUE in record or tuple(types) != (VALUE,))
    return record if is_dict else {VALUE: record}


def _head(name: Any, kind: str, chart: str) -> str:
    names = f"<span class='name'>{as_html(str(name))}</span><span class='type'>{as_html(kind)}</span>"
    style = " class='is-number'" if _NUMBER.fullmatch(kind) else ""
    return f"<th scope='col'{style}>{names}<span class='chart'>{chart}</span></th>"


def _row(index: int, record: Any, names: Sequence[str], types: Mapping[str, object], pictures: _Pictures) -> str:
    number = f"<th scope='row' class='index'>{index:,}</th>"
    if isinstance(record, Exception):
        return f"<tr class='damaged'>{number}<td colspan='{len(names)}'>{error_html(record)}</td></tr>"
    held = _fields(record, types)
    missing = "<td><em class='missing'>missing</em></td>"
    cells = (_cell(held[name], types.get(name), pictures) if name in held else missing for name in names)
    return f"<tr>{number}{''.join(cells)}</tr>"


def _cell(value: Any, kind: object, pictures: _Pictures) -> str:
    try:
        shown = cell(value, TABLE, getattr(kind, "class_names", ()))
        return f"<td class='is-{shown['kind']}'>{''.join(_parts(value, shown, pictures))}</td>"
    except Exception as error:  # the `repr` of a value may raise anything
        return f"<td>{error_html(error)}</td>"


def _parts(value: Any, shown: Cell, pictures: _Pictures) -> Iterator[str]:
    """Yield a value as the viewer's table shows it."""
    kind: str = shown["kind"]
    length: Any = shown.get("length")
    if kind == "image":
        yield pictures.html(value, shown)
    elif kind in ("text", "json", "number"):
        yield as_html(shown["text"], TABLE.characters)
        if shown.get("cut"):
            yield _note(f"... {length:,} {'bytes' if 'bytes' in shown else 'characters'}" if length else "...")
    elif kind == "chat":
        for turn in (Turn(**one) for one in shown["turns"]):
            yield f"<div class='turn'><em>{as_html(turn.role)}</em> {as_html(turn.line, len(turn.line))}</div>"
        yield _note(f"{length:,} messages") if length > len(shown["turns"]) else ""
    elif kind == "bytes":
        yield f"<span class='code'>{shown['hex'][:24]}</span>{_note(bytes_text(length))}"
    elif kind == "array":
        yield _drawn(shown, pictures)
        yield _note(f"{shown['dtype']}[{','.join(map(str, shown['shape']))}]")
    elif kind == "list":
        yield from (pictures.html(value[i], item) for i, item in enumerate(shown["items"]) if item["kind"] == "image")
        yield _note(f"{length:,} items: lengths {', '.join(map(str, shown['lengths']))}{', ...' * (length > 6)}")
    else:
        yield _note(f"{shown['name']}, {bytes_text(length)}" if "name" in shown else kind)


def _note(text: str) -> str:
    return f" <span class='note'>{as_html(text, TABLE.characters)}</span>"


def _drawn(shown: Cell, pictures: _Pictures) -> str:
    """Return an array as a line, a heat map in grey, or its first numbers."""
    if "line" in shown:
        return line(shown["line"])
    if "map" in shown:
        levels = np.frombuffer(base64.b64decode(shown["map"]["levels"]), np.uint8)
        return pictures.html(levels.reshape(shown["map"]["rows"], -1), {"name": "heat map", "length": 0})
    return f"<span class='code'>{as_html(' '.join(shown['values']))}</span>"


class _Pictures:
    """Makes thumbnails, until they take too many bytes."""

    def __init__(self, limits: TableLimits) -> None:
        self._size, self._left, self._new = limits.size, limits.picture_nbytes, 0

    def take(self) -> int:
        """Return the bytes of the pictures since the last call."""
        new, self._new = self._new, 0
        return new

    def html(self, value: Any, shown: Cell) -> str:
        """Return an image as `<img>`, or as text if it is broken or too many bytes are used."""
        size = f" {shown['width']} × {shown['height']}" if "width" in shown else ""
        label = as_html(f"{shown['name']}{size}" + (f", {bytes_text(shown['length'])}" if shown["length"] else ""))
        if self._left <= 0:
            return _note(label)
        try:
            picture = thumbnail(value, self._size)
        except ValueError as error:
            return error_html(error)
        data = base64.b64encode(picture).decode()
        self._left -= len(data)
        self._new += len(data)
        kind = "image/png" if picture.startswith(b"\x89PNG") else "image/jpeg"
        style = "thumb tiny" if max(shown.get("width", 0), shown.get("height", 0)) < self._size else "thumb"
        return f"<img class='{style}' src='data:{kind};base64,{data}' alt='{label}' title='{label}'>"
