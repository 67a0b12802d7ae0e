"""Records that were found damaged, and are left out from the next start on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import StateMismatchError
from dataformats.loaders.records import Records

__all__ = ["Quarantined", "holes_in"]


class Quarantined(NamedTuple):
    """A record that could not be read. A list of them is JSON, and comes back as lists of the same.

    Attributes:
        path: Its file; empty where it has none.
        index: Its number in the source that the loader was given.
        reason: What is wrong.
        component: Which source of a mixture.

    Example:
        >>> from dataformats.loaders.quarantine import Quarantined
        >>> Quarantined("a.tfrecord", 17, "checksum")
        Quarantined(path='a.tfrecord', index=17, reason='checksum', component=0)
    """

    path: str
    index: int  # type: ignore[assignment]  # the word of this house for a record's number, and of tuples for a search
    reason: str
    component: int = 0


def holes_in(entries: Iterable[Iterable[Any]], records: Records) -> Mapping[int, NDArray[np.int64]]:
    """Return for each component which of its records are quarantined.

    Args:
        entries: `Quarantined`, or lists of the same.
        records: What they are of.

    Raises:
        StateMismatchError: An entry is of other data.
    """
    found: dict[int, set[int]] = {}
    for entry in map(_parsed, entries):
        if entry.component >= len(records.components) or entry.index >= len(records.components[entry.component]):
            raise StateMismatchError(
                "quarantine",
                expected=f"record {entry.index} of component {entry.component}",
                found=f"{[len(component) for component in records.components]} records",
                remedy="pass the quarantine that was found in these data",
            )
        _compare(entry, records)
        found.setdefault(entry.component, set()).add(entry.index)
    return {component: np.array(sorted(indices), np.int64) for component, indices in found.items()}


def _parsed(entry: Iterable[Any]) -> Quarantined:
    parts = list(entry)
    numbers = [parts[1], *parts[3:]] if 3 <= len(parts) <= 4 else [None]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise TypeError(f"expected (path, index, reason) in quarantine, found {entry!r}")
    return Quarantined(*parts)


def _compare(entry: Quarantined, records: Records) -> None:
    """Compare the file's name, but not its folder, which may move."""
    origin = records.components[entry.component].origin(entry.index)
    if origin is not None and entry.path and os.path.basename(origin[0]) != os.path.basename(entry.path):
        raise StateMismatchError(
            f"quarantine: the file of record {entry.index}",
            expected=entry.path,
            found=origin[0],
            remedy="pass the quarantine that was found in these data",
        )
