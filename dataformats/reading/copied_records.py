"""Refuse to copy the records of a format as they are stored, in the same words for merge, split and repair."""

from __future__ import annotations

from dataformats.errors import Remedy, SpecError
from dataformats.registry import backends


def copying_formats() -> list[str]:
    """Return the shipped formats whose records can be copied as they are stored."""
    return sorted(name for name in backends if backends.shipped(name) and backends.get(name).copies_records)


def refused_copy(format: str, remedy: Remedy) -> SpecError:
    """Return the error of a call that cannot copy the records of a format.

    Args:
        format: The format.
        remedy: The call of `convert` that helps instead: it decodes the records.
    """
    what = f"records of {format} cannot be copied as they are stored, only records of {', '.join(copying_formats())}"
    return SpecError(what, remedy=remedy)
