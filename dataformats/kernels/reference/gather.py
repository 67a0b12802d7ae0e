"""Gathering in plain Python: the specification of the C kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

__all__ = ["gather"]


def gather(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8], /) -> int:
    """Copy each `buffer[starts[i] : starts[i] + lengths[i]]` to where the one before ends in `out`.

    Returns:
        -1, or the number of the first extent that does not lie in `buffer` or in the room that is left; or
        their number where room is left at the end.

    Raises:
        ValueError: `starts` and `lengths` are not equally long.
    """
    if len(starts) != len(lengths):
        raise ValueError(f"starts and lengths must be equally long, found {len(starts)} and {len(lengths)}")
    data, done = memoryview(cast("Any", buffer)).cast("B"), 0
    for i, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        if start < 0 or length < 0 or start + length > len(data) or done + length > len(out):
            return i
        out[done : done + length] = np.frombuffer(data[start : start + length], np.uint8)
        done += length
    return -1 if done == len(out) else len(starts)
