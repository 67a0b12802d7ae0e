"""The error of a record that lacks a field: a wrong name, or a field that only some records have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from dataformats.batch import Blobs
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import RecordCodec
from dataformats.spec import Spec

_NAMES, _CHARACTERS = 10, 80


class MissingFieldError(SpecError):
    """A record lacks a field; `with_names` makes the error for users of it."""


def with_names(error: MissingFieldError, codec: RecordCodec, blobs: Blobs, spec: Spec, *, inferred: bool) -> SpecError:
    """Return the error with the fields that the record has; the remedy names those with a near name.

    Args:
        error: Its `index` is the row of the record.
        codec: Decodes records.
        blobs: The records.
        spec: The types of the fields.
        inferred: True if the types were inferred from samples, which all had the field.
    """
    record: Mapping[str, Any] = codec.decode(bytes(blobs[error.index or 0]))
    names, what, field = sorted(record), error.what, error.field or ""
    if names:
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        what += f"; the record has {', '.join(map(_shown, names[:_NAMES]))}{more}"
    optional = {field: f"{spec[field]}?"}
    if inferred:
        remedy = Remedy("Pass {spec}, or run dataformats index --full --beside.", spec=optional)
        return SpecError(what, field=field, index=error.index, remedy=remedy)
    cut = [name[:_CHARACTERS] for name in names]
    sought = field[:_CHARACTERS]
    near = difflib.get_close_matches(sought, cut, n=1) or [name for name in cut if sought in name.split("/")]
    listed = " or ".join(map(_shown, near[:_NAMES])).replace("{", "{{").replace("}", "}}")
    name = f"Name the field {listed}" if near else "Check the name of the field"
    remedy = Remedy(f"{name}, or pass {{spec}} if records may lack it.", spec=optional)
    return SpecError(what, field=field, index=error.index, remedy=remedy)


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _CHARACTERS else f"{name[:_CHARACTERS]!r}..."
