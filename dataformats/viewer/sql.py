"""Texts of SQL: names of fields, values, and the numbers that histograms count."""

from __future__ import annotations

import functools
from typing import Any

from dataformats.spec import Spec, Type


@functools.cache
def _reserved() -> set[str]:
    """Return the words that are no names of columns everywhere."""
    try:
        import duckdb
    except ImportError:  # the page shows the condition, and its filter raises
        return set()
    query = "select keyword_name from duckdb_keywords() where keyword_category != 'unreserved'"
    with duckdb.connect(":memory:") as connection:
        return {word for (word,) in connection.execute(query).fetchall()}


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def written(name: str) -> str:
    """Return a name as a person writes it: in double quotes only if it needs them."""
    return name if name.isascii() and name.isidentifier() and name.lower() not in _reserved() else quoted(name)


def record_name(spec: Spec) -> str:
    """Return the name of a record's number in conditions."""
    name = "record"
    while name in map(str.lower, spec):
        name += "_"
    return name


def equal(name: str, value: Any) -> str | None:
    """Return the condition of records whose field has a value; `None` if SQL has no simple text for it."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    if not text.isprintable() or "\ufffd" in text or (isinstance(value, bytes) and "\\" in text):
        return None
    literal = text.lower() if isinstance(value, (bool, int)) else "'" + text.replace("'", "''") + "'"
    return f"{written(name)} = {literal}"


def number(value: float) -> str:
    """Return a number without rounding: a decimal of more digits would become a double in two steps."""
    if value.is_integer() and abs(value) < 2**64:
        return str(int(value))
    return str(value) if len(str(value)) <= 15 else f"{value:.16e}"


def measure(name: str, type_: Type) -> str | None:
    """Return the expression whose values a histogram counts; `None` if a record has several, or SQL has none."""
    column = written(name)
    if type_.dims:
        return None if type_.dims[0] is not None else f"len({column})"
    if type_.codec == "bool":
        return f"{column}::int"
    if type_.dtype is not None:
        return column if type_.codec not in ("float16", "float128") else None
    return {"bytes": f"octet_length({column})", "utf8": f"strlen({column})"}.get(type_.codec)
