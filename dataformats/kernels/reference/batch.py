"""Where records lie and where their blobs go, in plain numpy.

The twin of reading a batch is no kernel: it is the careful way of `storage.reading`, which also tells what is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def locate(
    starts: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32] | None,
    indices: NDArray[np.int64],
    file_out: NDArray[np.int32],
    offset_out: NDArray[np.int64],
    length_out: NDArray[np.int64],
    stored_out: NDArray[np.uint32] | None,
    /,
) -> int:
    """Write where records lie; return -1, or the first position that is no record.

    Raises:
        ValueError: `starts` does not rise from 0 to the number of records, or an array has another length.
    """
    n = len(offset)
    if len(starts) < 1 or starts[0] != 0 or starts[-1] != n or len(length) != n:
        raise ValueError("starts must rise from 0 to the number of records of the other arrays")
    outside = np.flatnonzero((indices < 0) | (indices >= n))
    if len(outside):
        return int(outside[0])
    file_out[:] = np.searchsorted(starts, indices, side="right") - 1
    offset_out[:] = offset[indices]
    length_out[:] = length[indices]
    if stored is not None and stored_out is not None:
        stored_out[:] = stored[indices]
    return -1


def places(
    sizes: NDArray[np.int64],
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    head: int,
    tail: int,
    max_bytes: int,
    place: NDArray[np.int64],
    /,
) -> int:
    """Lay blobs out back to back; return their bytes, or -1 where one does not fit its file."""
    if not len(file):
        place[:] = 0
        return 0
    if int(file.min()) < 0 or int(file.max()) >= len(sizes):
        return -1
    room = sizes[file] - tail
    fits = (length >= 0) & (length <= max_bytes) & (offset >= head) & (offset <= room)
    with np.errstate(over="ignore"):
        fits &= length <= room - offset
    if not fits.all() or float(length.sum(dtype=np.float64)) >= 2.0**63:
        return -1
    place[0] = 0
    np.cumsum(length, out=place[1:])
    return int(place[-1])
