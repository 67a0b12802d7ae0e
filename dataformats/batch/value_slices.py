"""Large values at the same place in every blob, which are read straight into their column.

A picture within an Example, or an array behind its dtype and shape, would be copied twice: out of the file, and out of
the record. Its place is known only after the record has been parsed, but most records of a dataset have the same
layout. So the place is learned from one batch, and the next ones are read in two parts: the large value goes straight
to its column, the rest to the buffer that is parsed, and the parse shows whether the guess was right.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.blobs import Blobs

__all__ = ["SplitBlobs", "ValueSlice"]

_MIN_BYTES = 4096  # copying less costs no more than finding it
_MIN_RECORDS = 8
_TRIES = 4


class ValueSlice(NamedTuple):
    """A part at the same place in several blobs.

    Attributes:
        begin: Where the part begins in each blob; a negative number counts from the end of the blob, as in Python.
        n_bytes: The part's bytes.
    """

    begin: int
    n_bytes: int


@dataclass(slots=True, eq=False)
class SplitBlobs:
    """Blobs with one part read into another array. No other object uses that array or the blobs' buffer.

    Attributes:
        blobs: The blobs; their buffer holds arbitrary bytes in place of the part. A blob too short for it is whole.
        value_slice: The part.
        rows: uint8[n, value_slice.n_bytes], the part of each blob; arbitrary bytes for those that are whole.
    """

    blobs: Blobs
    value_slice: ValueSlice
    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.blobs)

    @property
    def begins(self) -> NDArray[np.int64]:
        """int64[n], where in the buffer the part of each blob belongs; outside of the blob if it is whole."""
        blobs, begin = self.blobs, self.value_slice.begin
        return blobs.starts + begin + (blobs.lengths if begin < 0 else 0)


StoredBlobs = Mapping[str, tuple[Blobs | SplitBlobs, NDArray[np.int64] | None]]
"""Field to its blobs, and to the number of blobs in each record (`None`: one): see `Located`."""


def join_blobs(blobs: Blobs | SplitBlobs) -> Blobs:
    """Return blobs with their part copied back to its place."""
    if isinstance(blobs, Blobs):
        return blobs
    split, n_bytes = blobs, blobs.value_slice.n_bytes
    blobs = split.blobs
    for row, begin, start, length in zip(split.rows, split.begins, blobs.starts, blobs.lengths, strict=True):
        if start <= begin <= start + length - n_bytes:
            blobs.buffer[begin : begin + n_bytes] = row
    return blobs


def common_slice(blobs: Blobs, begin: NDArray[np.int64], end: NDArray[np.int64]) -> ValueSlice | None:
    """Return the slice that holds one part of each blob; `None` if the parts have different places or lengths.

    Args:
        blobs: The blobs.
        begin: int64[n], where the part of each blob begins in their buffer.
        end: int64[n], where it ends.
    """
    for base in (begin - blobs.starts, begin - blobs.starts - blobs.lengths):
        if len(base) and (base == base[0]).all() and (end - begin == end[0] - begin[0]).all():
            return ValueSlice(int(base[0]), int(end[0] - begin[0]))
    return None


def widest_slice(slices: Sequence[ValueSlice | None]) -> ValueSlice | None:
    """Return the slice with the most bytes."""
    return max((one for one in slices if one is not None), key=lambda one: one.n_bytes, default=None)


class SliceHints:
    """The value slices that earlier batches of a source showed. Thread-safe.

    A wrong guess costs a copy. If records have different layouts, guessing stops after a few batches.

    Attributes:
        known: Key to the expected place of a large value.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, ValueSlice] = {}
        self._tries: dict[Hashable, int] = {}

    def learn(self, key: Hashable, n_records: int, find: Callable[[], ValueSlice | None]) -> None:
        """Call `find` on a batch, unless the key is known or was tried often enough."""
        tries = self._tries.get(key, 0)
        if key in self.known or n_records < _MIN_RECORDS or tries >= _TRIES:
            return
        self._tries[key] = tries + 1
        found = find()
        if found is not None and found.n_bytes >= _MIN_BYTES:
            self.known[key] = found

    def forget(self, key: Hashable) -> None:
        """Drop a guess that was wrong."""
        self.known.pop(key, None)
