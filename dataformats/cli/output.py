"""Print to standard output: one fact per line, or one JSON document."""

from __future__ import annotations

import json
import sys
from typing import Any

from dataformats.registry import codecs
from dataformats.spec import Type

__all__ = ["can_print", "counted", "fact", "print_json", "printable", "why_opaque"]


def fact(name: str, value: object) -> None:
    """Print one fact."""
    print(f"{printable(name)}: {printable(str(value))}")


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII."""
    print(json.dumps(value, indent=1, allow_nan=False))


def printable(text: str) -> str:
    """Return text with control characters and line breaks escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def can_print(text: str) -> bool:
    """Return True if standard output is open and its encoding has these characters."""
    if sys.stdout is None:  # as with `>&-`
        return False
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def why_opaque(kind: Type) -> str:
    """Return why no codec decodes a type that a file names."""
    name = str(kind.element)
    known = kind.codec in codecs
    return f"opaque: a file may not name {name!r}, only --spec may" if known else f"opaque: no codec {name!r}"


def counted(n: int, what: str) -> str:
    """Return `1 record` or `2 records`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
