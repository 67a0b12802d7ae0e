"""Best fit: place items of known lengths in rows of one length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.dispatch import kernels


def best_fit(lengths: NDArray[np.int64], row_length: int) -> NDArray[np.int64]:
    """Return the row of each item, `(n,) int64`: the fullest one that has room for it, or else a new one.

    Among equally full rows, it is the one whose last item came last. Rows waste least if the longest items come first.

    Args:
        lengths: int64[n], each in `[1, row_length]`.
        row_length: The length of every row, below 2**31.

    Raises:
        ValueError: A length is outside its range.
    """
    rows = np.empty(len(lengths), np.int64)
    kernels().best_fit(np.ascontiguousarray(lengths, np.int64), row_length, rows)
    return rows
