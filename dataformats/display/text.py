"""Text that a terminal or a page shows as it is: escaped, quoted and cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from dataformats.spec import Type

_LAYOUT = str.maketrans("", "", "\t\n\r")
_CLASSES = 10  # names that are shown
_UNUSUAL = re.compile(r"[^ -~]")


def escape_text(text: str) -> str:
    """Return text with control characters, line breaks, surrogates and marks of direction as backslashes."""
    return text if text.isprintable() else _UNUSUAL.sub(_escaped, text)


def quote_text(text: str, n: int) -> str:
    """Return the `repr` of at most `n` characters, and how many there are if that is cut."""
    return repr(text) if len(text) <= n else f"{text[:n]!r}... ({len(text)} characters)"


def text_of(blob: bytes, n: int) -> str | None:
    """Return the first `n` bytes as text; `None` if these are not printable UTF-8, line breaks or tabs."""
    start = blob[:n]
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3 or len(start) == len(blob):  # no character that the limit cuts
            return None
        text = start[: error.start].decode()
    return text if text.translate(_LAYOUT).isprintable() else None


def with_class_name(text: str, value: Any, names: Sequence[str]) -> str:
    """Return the text of a value with the name of its class in parentheses, if it is the number of one."""
    is_class = isinstance(value, Integral) and 0 <= int(value) < len(names)
    return f"{text} ({names[int(value)]})" if is_class else text


def type_text(kind: Type) -> str:
    """Return a type with the first names of its classes, such as `int64, 2 classes: cat, dog`."""
    names = kind.class_names
    more = ", ..." if len(names) > _CLASSES else ""
    return f"{kind}, {len(names)} classes: {', '.join(names[:_CLASSES])}{more}" if names else str(kind)


def array_type(array: np.ndarray[Any, Any]) -> str:
    """Return dtype and shape as types are written, such as `uint8[8,8]`."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
