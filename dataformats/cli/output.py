"""Print to standard output: one fact per line, or one JSON document."""

from __future__ import annotations

import json
import sys
from typing import Any

from dataformats.display.text import escape_text
from dataformats.registry import codecs
from dataformats.spec import Type

_encode_json = json.JSONEncoder(allow_nan=False).encode
_NAME = 5000  # characters, more than a path has; a name in data may have megabytes


def print_fact(name: str, value: object) -> None:
    """Print one fact; a long name is cut."""
    shown = name if len(name) <= _NAME else f"{name[:_NAME]}..."
    print(f"{escape_text(shown)}: {escape_text(str(value))}")


def print_json(value: Any) -> None:
    """Print one JSON document in one line, in ASCII."""
    print(_encode_json(value))


def can_print(text: str) -> bool:
    """Return True if standard output is open and its encoding has these characters."""
    if sys.stdout is None:  # `>&-` closes it
        return False
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def why_opaque(type_: Type) -> str:
    """Return why no codec decodes a type that a file names."""
    name = str(type_.element)
    known = type_.codec in codecs
    return f"opaque: a file may not name {name!r}, only --spec may" if known else f"opaque: no codec {name!r}"


def format_count(n: int, noun: str) -> str:
    """Return `1 record` or `2 records`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
