"""Gather in plain Python: the specification of the C kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

__all__ = ["gather"]


def gather(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8], /) -> int:
    """Copy each `buffer[starts[i] : starts[i] + lengths[i]]` to `out`, back to back.

    Returns:
        -1, or the number of the first extent that is outside `buffer` or does not fit in `out`; or the number of
        extents if `out` is not full at the end.

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
