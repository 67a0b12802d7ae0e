"""Quarantine: the damaged records that a run left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dataformats.loaders.adapters import Readable

__all__ = ["Quarantined"]


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
    return Quarantined(sources[component].origins([index])[0].path, index, str(error), component)
