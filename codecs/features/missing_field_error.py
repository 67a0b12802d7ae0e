"""The error of a record that lacks a field: a wrong name, or a field that only some records have."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from dataformats.batch import Blobs
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import RecordCodec

_NAMES, _CHARACTERS = 10, 80


class MissingFieldError(SpecError):
    """A record lacks a field; `with_names` makes the error for users of it."""


def with_names(error: MissingFieldError, codec: RecordCodec, blobs: Blobs, spec: Collection[str]) -> SpecError:
    """Return the error with the fields that the record has; one that the spec lacks and has a near name is the remedy.

    Args:
        error: Its `index` is the row of the record.
        codec: Decodes records.
        blobs: The records.
        spec: The names that are declared.
    """
    record: Mapping[str, Any] = codec.decode(bytes(blobs[error.index or 0]))
    names, what, remedy = sorted(record), error.what, error.remedy
    if names:
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        what += f"; the record has {', '.join(map(_shown, names[:_NAMES]))}{more}"
    undeclared = [name[:_CHARACTERS] for name in names if name not in spec]
    sought = (error.field or "")[:_CHARACTERS]
    near = difflib.get_close_matches(sought, undeclared, n=1) or [
        name for name in undeclared if sought in name.split("/")
    ]
    if near:
        listed = " or ".join(map(_shown, near[:_NAMES])).replace("{", "{{").replace("}", "}}")
        remedy = Remedy(f"Name the field {listed}.")
    return SpecError(what, field=error.field, index=error.index, remedy=remedy)


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _CHARACTERS else f"{name[:_CHARACTERS]!r}..."
