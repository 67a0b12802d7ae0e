"""Large values that lie at the same place of every blob, and are read to where they are wanted in the first place.

A picture within an Example, or an array behind its dtype and shape, would be copied twice: out of the file, and out of
the record. Where it lies is known only when the record has been parsed; but the records of a data set are mostly laid
out alike. So the place is learned from a batch, and the next ones are read around it: the large value goes straight to
its column, all else to the buffer that is parsed, and the parse shows whether the guess was right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.blobs import Blobs

__all__ = ["SliceHints", "SplitBlobs", "ValueSlice", "common_slice", "whole", "widest"]

_LEAST_BYTES = 4096  # a copy of less costs no more than to look for it
_LEAST_RECORDS = 8
_TRIES = 4


class ValueSlice(NamedTuple):
    """A part that blobs have at the same place.

    Attributes:
        begin: Where it begins in each blob; below 0, as in Python, from its end.
        n_bytes: Its bytes.
    """

    begin: int
    n_bytes: int


@dataclass(slots=True, eq=False)
class SplitBlobs:
    """Blobs without the part that was read to an array of its own. That is theirs alone, as is their buffer.

    Attributes:
        blobs: The blobs; what their buffer holds in place of the part means nothing. One that is too short for it is
            whole.
        window: The part.
        rows: uint8[n, window.n_bytes], the part of each blob; of those that are whole, anything.
    """

    blobs: Blobs
    value_slice: ValueSlice
    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.blobs)

    @property
    def begins(self) -> NDArray[np.int64]:
        """int64[n], where in the buffer the part of each blob belongs; of one that is whole, a place outside of it."""
        blobs, window = self.blobs, self.value_slice
        return blobs.starts + window.begin + (blobs.lengths if window.begin < 0 else 0)


def whole(read: Blobs | SplitBlobs) -> Blobs:
    """Return blobs with their window where it belongs."""
    if isinstance(read, Blobs):
        return read
    blobs, n_bytes = read.blobs, read.value_slice.n_bytes
    for row, begin, start, length in zip(read.rows, read.begins, blobs.starts, blobs.lengths, strict=True):
        if start <= begin <= start + length - n_bytes:
            blobs.buffer[begin : begin + n_bytes] = row
    return blobs


def common_slice(blobs: Blobs, begin: NDArray[np.int64], end: NDArray[np.int64]) -> ValueSlice | None:
    """Return the window that parts of blobs are, if it is one.

    Args:
        blobs: The blobs.
        begin: int64[n], where each one's part begins in their buffer.
        end: int64[n], where it ends.
    """
    for base in (begin - blobs.starts, begin - blobs.starts - blobs.lengths):
        if len(base) and (base == base[0]).all() and (end - begin == end[0] - begin[0]).all():
            return ValueSlice(int(base[0]), int(end[0] - begin[0]))
    return None


def widest(windows: Sequence[ValueSlice | None]) -> ValueSlice | None:
    """Return the window with the most bytes."""
    return max((window for window in windows if window is not None), key=lambda one: one.n_bytes, default=None)


class SliceHints:
    """The windows of one source's blobs, as batches have shown them. Thread-safe.

    A wrong guess costs a copy. Where records are not laid out alike, no more guesses are made after some.

    Attributes:
        known: Where a large value of the blobs of each key should be.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, ValueSlice] = {}
        self._tries: dict[Hashable, int] = {}

    def learn(self, key: Hashable, n_records: int, find: Callable[[], ValueSlice | None]) -> None:
        """Take what `find` sees in a batch, if more is to be known of that key."""
        tries = self._tries.get(key, 0)
        if key in self.known or n_records < _LEAST_RECORDS or tries >= _TRIES:
            return
        self._tries[key] = tries + 1
        window = find()
        if window is not None and window.n_bytes >= _LEAST_BYTES:
            self.known[key] = window

    def forget(self, key: Hashable) -> None:
        """Know that the value was not there."""
        self.known.pop(key, None)
