"""Scan a file past its damage: for formats whose headers can be found from any place of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile

_MAX_GAPS = 10_000  # each is an exception in memory, and may cost a read of a megabyte


class Scanned(Protocol):
    """A part of a file that a scan found, such as a record."""

    @property
    def stop(self) -> int:
        """The byte behind it."""
        ...


S = TypeVar("S", bound=Scanned)


def scan_past_damage(
    file: StoredFile, scan: Callable[[int], Iterator[S]], find: Callable[[int], int | None]
) -> Iterator[S | FormatError]:
    """Yield the parts of a file; in place of each damaged range, its error with the `lost_bytes`.

    A damaged range ends where the next part is found, else with the file. A file with more than 10,000 of them is
    scanned up to the last of these.

    Args:
        file: The file.
        scan: Yields the parts from a byte on; raises `FormatError` where it cannot go on.
        find: Returns the first byte, from a given one on, where a part begins that is proven to be one; or `None`. The
            whole scan takes linear time if `find` does.
    """
    at: int | None = 0
    stop, n_gaps, gap = 0, 0, None
    while at is not None:
        try:
            for found in scan(at):
                if gap is not None:
                    yield replace(gap, lost_bytes=range(stop, at))
                    gap = None
                yield found
                stop = found.stop
            break
        except FormatError as error:
            gap = gap or error
        n_gaps += 1
        at = find(max(stop, at) + 1) if n_gaps <= _MAX_GAPS else None
    if gap is not None:
        yield replace(gap, lost_bytes=range(min(stop, file.size), file.size))
