"""Quarantine: the damaged records that a run left out, and leaves out unread from its next start on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import StateMismatchError
from dataformats.loaders.adapters import Readable

__all__ = ["Quarantined", "quarantine_entry", "quarantined_indices"]

_REMEDY = "Pass the quarantine list of these data"


class Quarantined(NamedTuple):
    """A record that could not be read. A list of these converts to JSON, and comes back as a list of lists.

    Attributes:
        path: Its file; empty if it has none.
        index: Its index in the source that was passed to the loader.
        reason: Why it is left out.
        component: The number of its source in a mixture.

    Example:
        >>> from dataformats.loaders.quarantine import Quarantined
        >>> Quarantined("a.tfrecord", 17, "checksum")
        Quarantined(path='a.tfrecord', index=17, reason='checksum', component=0)
    """

    path: str
    index: int  # type: ignore[assignment]  # a record's number here; in other tuples the method that searches
    reason: str
    component: int = 0


def quarantine_entry(sources: Sequence[Readable], component: int, index: int, error: Exception) -> Quarantined:
    """Return the entry of a record that raised this error."""
    origin = sources[component].origin(index)
    return Quarantined("" if origin is None else origin[0], index, str(error), component)


def quarantined_indices(
    entries: Iterable[Iterable[Any]], sources: Sequence[Readable]
) -> Mapping[int, NDArray[np.int64]]:
    """Return which records are quarantined: component to int64[n], ascending indices.

    Args:
        entries: `Quarantined`, or lists with the same content.
        sources: The source of each component.

    Raises:
        StateMismatchError: An entry belongs to other data.
        TypeError: One is not an entry.
    """
    indices: dict[int, set[int]] = {}
    for entry in map(_parsed, entries):
        if entry.component >= len(sources) or entry.index >= len(sources[entry.component]):
            raise StateMismatchError(
                "quarantine",
                expected=f"record {entry.index} of component {entry.component}",
                found=f"{[len(source) for source in sources]} records",
                remedy=_REMEDY,
            )
        _check_file(entry, sources)
        indices.setdefault(entry.component, set()).add(entry.index)
    return {component: np.array(sorted(found), np.int64) for component, found in indices.items()}


def _parsed(entry: Iterable[Any]) -> Quarantined:
    parts = list(entry)
    numbers = [parts[1], *parts[3:]] if 3 <= len(parts) <= 4 else [None]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise TypeError(
            f"quarantine: expected (path, index, reason) or (path, index, reason, component), found {entry!r}"
        )
    return Quarantined(*parts)


def _check_file(entry: Quarantined, sources: Sequence[Readable]) -> None:
    """Compare the name of the file, but not its folder, which may have moved."""
    origin = sources[entry.component].origin(entry.index)
    if origin is not None and entry.path and os.path.basename(origin[0]) != os.path.basename(entry.path):
        raise StateMismatchError(
            f"quarantine: the file of record {entry.index}",
            expected=entry.path,
            found=origin[0],
            remedy=_REMEDY,
        )
