"""How an error is kept beside an index: as JSON, without the path, which may be another one when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataformats.errors import ChecksumError, FormatError, TruncatedError

__all__ = ["error_of", "told"]

_ERRORS = {kind.__name__: kind for kind in (FormatError, TruncatedError, ChecksumError)}
_FACTS = ("what", "offset_bytes", "remedy")


def told(error: FormatError | None) -> dict[str, Any] | None:
    """Return an error as JSON."""
    if error is None:
        return None
    facts = {name: getattr(error, name) for name in _FACTS}
    if isinstance(error, ChecksumError):
        facts |= {"stored": error.stored, "computed": error.computed}
    else:
        facts |= {"expected": _plain(error.expected), "found": _plain(error.found)}
    return {"type": type(error).__name__, **{name: fact for name, fact in facts.items() if fact is not None}}


def _plain(fact: object) -> object:
    return fact if isinstance(fact, (str, int)) or fact is None else repr(fact)


def error_of(kept: Mapping[str, Any] | None, path: str) -> FormatError | None:
    """Return the error that was told, of the file that is called `path` now."""
    if kept is None:
        return None
    facts = {name: fact for name, fact in kept.items() if name not in ("type", "what")}
    return _ERRORS[kept["type"]](str(kept["what"]), path=path, **facts)
