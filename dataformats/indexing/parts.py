"""Which part of something made of parts, files say, holds each record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parted", "parted"]


class Parted(NamedTuple):
    """Records, sorted out by the parts that hold them.

    Attributes:
        part: int32[n], the part of each.
        local: int64[n], its number there.
        groups: Part to the positions of its records, for the parts that have any.
    """

    part: NDArray[np.int32]
    local: NDArray[np.int64]
    groups: Mapping[int, NDArray[np.int64] | slice]


def parted(starts: NDArray[np.int64], indices: NDArray[np.int64]) -> Parted:
    """Return where records are.

    Args:
        starts: int64[n_parts + 1], the number of each part's first record, and of all records.
        indices: int64[n], each in `[0, starts[-1])`.
    """
    if len(starts) == 2:
        return Parted(np.zeros(len(indices), np.int32), indices, {0: slice(None)} if len(indices) else {})
    part = (np.searchsorted(starts, indices, side="right") - 1).astype(np.int32)
    groups = {number: np.flatnonzero(part == number) for number in sorted(set(part.tolist()))}
    return Parted(part, indices - starts[part], groups)
