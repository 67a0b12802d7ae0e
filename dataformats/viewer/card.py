"""A data card: one page of HTML with the facts, statistics and first records of a dataset, without scripts."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any

from dataformats.display.cells import short_text
from dataformats.display.charts import bars
from dataformats.display.record_table import TableLimits, as_html, bytes_text, error_html, table_rows
from dataformats.display.text import type_text
from dataformats.errors import TargetExistsError
from dataformats.reading.source_repr import row_reader
from dataformats.reading.stats import FieldStats, RunningStats, scan_stats
from dataformats.spec import Type
from dataformats.storage import atomic
from dataformats.viewer.dataset import ViewedDataset

_TABLE = TableLimits(fields=30, nbytes=600_000, picture_nbytes=20_000_000, size=160)
_FIELDS, _COMMON, _METADATA = 200, 12, 50  # statistics, values of a field, facts
_SPEC, _CARDS, _FAILURES = 150_000, 650_000, 50_000  # bytes
_STYLE = [Path(__file__).parent / "static" / name for name in ("viewer.css", "card.css")]


def export_card(
    dataset: ViewedDataset, folder: Path, n: int, progress: Callable[[int, int], None] | None = None
) -> int:
    """Write a data card to the file `index.html` in a new folder: complete, or not at all.

    Args:
        dataset: The dataset. All its records are read.
        folder: The new folder.
        n: Number of records to show.
        progress: Called with (records done, records in all).

    Returns:
        The number of damaged records.

    Raises:
        TargetExistsError: There is something of this name.
        FormatError: The dataset cannot be read.
        SpecError: A record does not fit the spec.
    """
    if os.path.lexists(folder):
        raise _exists(folder)
    page, n_failed = card_html(dataset, n, progress)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    partial.mkdir(parents=True)
    try:
        atomic.write_bytes(partial / "index.html", page.encode())
        atomic.publish(partial, folder, replace=False)
    except FileExistsError as error:
        raise _exists(folder) from error
    finally:
        atomic.remove(partial)
    return n_failed


def _exists(folder: Path) -> TargetExistsError:
    return TargetExistsError(f"{str(folder)!r} exists", remedy="Give the folder of the card a new name, or delete it")


def card_html(dataset: ViewedDataset, n: int, progress: Callable[[int, int], None] | None = None) -> tuple[str, int]:
    """Return the page, and the number of damaged records. The same records have the same page.

    Its size is at most 2 MB without pictures. See `export_card`.
    """
    dataset.wait(TIMEOUT_MAX)
    source, total = dataset.source, len(dataset.source)
    running = RunningStats(())
    for running in scan_stats(source, dataset.fields[:_FIELDS]):
        if progress is not None:
            progress(running.records, total)
    facts, stats = dataset.facts(), running.snapshot()
    types = {field["name"]: source.spec[field["name"]] for field in facts["fields"]}
    charts = {name: _chart(field) for name, field in stats.items()}
    head, rows, more = table_rows(types, min(n, total), row_reader(source), _TABLE, charts)
    summary = f"{facts['format']} · {_counted(total, 'record')} · {_counted(len(types), 'field')}"
    table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    body = [
        f"<header class='top'><div class='title'><h1>{as_html(facts['name'])}</h1><p>{summary}</p></div>"
        "<a href='#fields'>Fields</a><a href='#records'>Records</a></header>",
        "<main class='overview'>",
        _pairs("facts", _facts(facts, source.fingerprint, total)),
        _damage(running),
        f"<details class='files'><summary>Spec</summary><pre class='block' tabindex='0'>{_spec(types)}</pre></details>",
        f"<h2 id='fields'>Fields</h2><div class='cards'>{''.join(_cards(types, stats))}</div>",
        f"<h2 id='records'>First {_counted(len(rows), 'record')}</h2>",
        f"<div class='scroll' tabindex='0' role='region' aria-label='Records'>{table}</div><p class='about'>{more}</p>",
        "</main>",
    ]
    return _page(facts["name"], "\n".join(body)), running.n_failed


def _page(title: str, body: str) -> str:
    style = "".join(path.read_text("utf-8") for path in _STYLE)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{as_html(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _facts(facts: Mapping[str, Any], fingerprint: str, total: int) -> Iterator[tuple[str, str]]:
    payload, n_fields = facts["payload"], len(facts["fields"])
    yield "format", facts["format"] if payload is None else f"{facts['format']}, payload {payload}"
    yield "records", f"{total:,}"
    yield "size", f"{bytes_text(facts['nbytes'])} in {_counted(facts['n_files'], 'file')}"
    yield "fields", f"{n_fields:,}, {'inferred from records' if facts['is_inferred'] else 'declared'}"
    yield "fingerprint", fingerprint
    yield from [*facts["metadata"].items()][:_METADATA]


def _damage(running: RunningStats) -> str:
    if not running.n_failed:
        return "<p class='sound'>No damaged record was found.</p>"
    failures = (f"<li>{number:,} {error_html(error)}</li>" for number, error in sorted(running.failures.items()))
    rows = _within(failures, _FAILURES)
    rest = running.n_failed - len(rows)
    more = f"<p class='about'>and {rest:,} more</p>" if rest else ""
    title = f"<h2>{_counted(running.n_failed, 'damaged record')}</h2>"
    return f"<section class='problem' aria-label='Damage'>{title}<ul>{''.join(rows)}</ul>{more}</section>"


def _spec(types: Mapping[str, Type]) -> str:
    lines = _within((f"{as_html(name)}: {as_html(str(kind))}\n" for name, kind in types.items()), _SPEC)
    rest = len(types) - len(lines)
    return "".join(lines) + (f"and {rest:,} more" if rest else "")


def _cards(types: Mapping[str, Type], stats: Mapping[str, FieldStats]) -> Iterator[str]:
    cards = _within((_card(name, types[name], field) for name, field in stats.items()), _CARDS)
    yield from cards
    if len(cards) < len(types):
        yield f"<p class='about'>{len(types) - len(cards):,} more fields</p>"


def _card(name: str, kind: Type, stats: FieldStats) -> str:
    types = as_html(type_text(kind))
    head = f"<h3><span class='name'>{as_html(name)}</span><span class='type'>{types}</span></h3>"
    return f"<section class='card'>{head}{_pairs('numbers', _numbers(stats))}{_distribution(stats, kind)}</section>"


def _numbers(stats: FieldStats) -> Iterator[tuple[str, str]]:
    names = ("smallest", "mean size", "largest") if _is_image(stats) else ("shortest", "mean length", "longest")
    names = names if stats.of_lengths else ("least", "mean", "largest")
    yield "records", f"{stats.count:,}"
    for name, number in zip((*names, "deviation"), (stats.minimum, stats.mean, stats.maximum, stats.std), strict=True):
        if number is not None:
            yield name, _short(number, stats)
    for name, count in (("distinct", stats.distinct), ("missing", stats.missing), ("NaN", stats.nans)):
        if count:
            yield name, f"{count:,}"
    if stats.infinite:
        yield "infinite", f"{stats.infinite:,}"


def _is_image(stats: FieldStats) -> bool:
    return any("image" in one.text for one in stats.largest)


def _repeats(stats: FieldStats) -> bool:
    return any(count > 1 for _, count in (stats.most_common or ())[:1])


def _chart(stats: FieldStats) -> str:
    """Return the small chart of a field: of the most common values, or of all numbers or lengths."""
    if stats.of_lengths and _repeats(stats):
        return bars([count for _, count in stats.most_common or ()])
    return bars(stats.histogram.counts) if stats.histogram and len(stats.histogram.counts) > 1 else ""


def _distribution(stats: FieldStats, kind: Type) -> str:
    common = list((stats.most_common or ())[:_COMMON]) if _repeats(stats) else []
    most = max((count for _, count in common), default=0)
    values = "".join(_share(short_text(value, kind.class_names), count, most) for value, count in common)
    listed = f"<ol class='common' aria-label='Most common values'>{values}</ol>" if common else ""
    if stats.histogram is None or len(stats.histogram.counts) < 2 or (common and (stats.distinct or 0) <= _COMMON):
        return listed
    ends = "".join(f"<span>{_short(end, stats)}</span>" for end in (stats.minimum, stats.maximum))
    return f"<figure>{bars(stats.histogram.counts)}<div class='ends'>{ends}</div></figure>{listed}"


def _share(text: str, count: int, most: int) -> str:
    bar = f"<rect width='{100 * count / most:.1f}' height='1' fill='currentColor'/>"
    track = f"<svg class='track' viewBox='0 0 100 1' preserveAspectRatio='none' aria-hidden='true'>{bar}</svg>"
    return f"<li><span class='value'>{as_html(text)}</span>{track}<span class='number'>{count:,}</span></li>"


def _short(number: float | None, stats: FieldStats) -> str:
    if number is None or _is_image(stats):
        return "" if number is None else bytes_text(number)
    is_whole = float(number).is_integer() or abs(number) >= 1000
    return f"{number:,.0f}" if is_whole and abs(number) < 1e12 else f"{number:,.4g}"


def _pairs(style: str, pairs: Iterable[tuple[str, str]]) -> str:
    rows = (f"<div><dt>{as_html(name)}</dt><dd>{as_html(text)}</dd></div>" for name, text in pairs)
    return f"<dl class='{style}'>{''.join(rows)}</dl>"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _within(parts: Iterable[str], nbytes: int) -> list[str]:
    """Return the first parts, up to a number of bytes."""
    kept: list[str] = []
    for part in parts:
        nbytes -= len(part.encode())
        if nbytes < 0:
            break
        kept.append(part)
    return kept
