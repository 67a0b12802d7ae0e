"""The order of the rest of an epoch in which records were appended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import permute
from dataformats.loaders.epochs import Part
from dataformats.loaders.shuffle import Shuffle, key_of

_Numbers = NDArray[np.int64]


def split_places(
    places: _Numbers, parts: Sequence[Part], shuffle: Shuffle, name: tuple[int, ...]
) -> tuple[_Numbers, _Numbers]:
    """Return the part of an epoch that each place reads, and the place in the order of that part.

    From the place on at which records were appended, the rest of the order so far and the order of the new records take
    turns: at random, if all records are shuffled; evenly by their numbers if windows are, so that each of both orders
    still reads one window after another; and the new records come last, if nothing is shuffled.

    Args:
        places: int64[n] in the epoch.
        parts: The records of the epoch: see `Epochs.parts`.
        shuffle: The kind of order.
        name: Identifies the order.

    Returns:
        The first record of each part, and the places: int64[n] each.
    """
    part, found = np.zeros_like(places), places.copy()
    for offset, begin, end in reversed(parts[1:]):
        rows = np.flatnonzero((found >= offset) & (part == 0))
        rest = begin - offset
        turn = _turns(found[rows] - offset, rest, end - begin, shuffle, (*name, begin))
        is_new = turn >= rest
        found[rows] = np.where(is_new, turn - rest, turn + offset)
        part[rows[is_new]] = begin
    return part, found


def _turns(slots: _Numbers, rest: int, new: int, shuffle: Shuffle, name: tuple[int, ...]) -> _Numbers:
    """Return what comes at each slot: a number below `rest` in the old order, or `rest` and one in the new order."""
    if shuffle.kind == "none":
        return slots
    if shuffle.kind == "global":
        return permute(slots, rest + new, key_of(*name, "turns"))
    before = _share(slots, rest, new)
    return np.where(_share(slots + 1, rest, new) > before, before, rest + slots - before)


def _share(slots: _Numbers, rest: int, new: int) -> _Numbers:
    """Return how many of the first slots are of the rest: its share, rounded; it grows by 0 or 1 for each slot."""
    total = rest + new
    if total < 2**31:  # no product is too large
        return (slots * rest + total // 2) // total
    return np.array([(slot * rest + total // 2) // total for slot in slots.tolist()], np.int64)
