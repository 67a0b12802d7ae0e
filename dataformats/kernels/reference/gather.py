"""Gather, and copy bytes objects, in plain Python: the specification of the C kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def gather(
    buffers: list[BytesLike],
    numbers: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    /,
) -> int:
    """Copy each `buffers[numbers[i]][starts[i] : starts[i] + lengths[i]]` to `out`, back to back.

    Returns:
        -1, or the number of the first extent that is outside of its buffer, whose buffer does not exist, or that does
        not fit in `out`; or the number of extents if `out` is not full at the end.

    Raises:
        ValueError: `numbers`, `starts` and `lengths` are not equally long.
    """
    found = len(numbers), len(starts), len(lengths)
    if len(set(found)) > 1:
        counts = "{}, {} and {}".format(*found)
        raise ValueError(f"numbers, starts and lengths must be equally long, found {counts}")
    views = [memoryview(cast("Any", buffer)) for buffer in buffers]
    data, done = [view.cast("B") if view.nbytes else b"" for view in views], 0  # `cast` refuses shapes with a 0
    for i, (number, start, length) in enumerate(zip(*(x.tolist() for x in (numbers, starts, lengths)), strict=True)):
        if not 0 <= number < len(data) or start < 0 or length < 0 or start + length > len(data[number]):
            return i
        if done + length > len(out):
            return i
        out[done : done + length] = np.frombuffer(data[number][start : start + length], np.uint8)
        done += length
    return -1 if done == len(out) else len(starts)


def bytes_list(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], /) -> list[bytes]:
    """Return `buffer[starts[i] : starts[i] + lengths[i]]` of each extent.

    Raises:
        ValueError: `starts` and `lengths` are not equally long, or an extent is outside `buffer`.
    """
    if len(starts) != len(lengths):
        raise ValueError(f"starts and lengths must be equally long, found {len(starts)} and {len(lengths)}")
    data = memoryview(cast("Any", buffer)).cast("B")
    for i, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        if start < 0 or length < 0 or start + length > len(data):
            raise ValueError(f"extent {i} (start {start}, length {length}) is outside the buffer")
    return [bytes(data[start : start + n]) for start, n in zip(starts.tolist(), lengths.tolist(), strict=True)]


def join_frames(heads: BytesLike, items: Sequence[bytes], feet: BytesLike, out: NDArray[np.uint8], /) -> None:
    """Copy all items to `out`, back to back, each between its head and its foot.

    Args:
        heads: The heads of all items, back to back and equally long.
        items: The items.
        feet: The feet of all items, in the same form.
        out: uint8[n], filled.

    Raises:
        TypeError: An item is not bytes.
        ValueError: The frames have more or fewer bytes than `out`.
    """
    if not all(isinstance(item, bytes) for item in items):
        raise TypeError("expected bytes")
    first, last = bytes(heads), bytes(feet)
    head, foot = (len(some) // max(1, len(items)) for some in (first, last))
    parts = [(first[i * head :][:head], item, last[i * foot :][:foot]) for i, item in enumerate(items)]
    joined = b"".join([part for frame in parts for part in frame])
    if len(joined) != len(out) or (head * len(items), foot * len(items)) != (len(first), len(last)):
        raise ValueError(f"out must have as many bytes as all frames, found {len(out)}")
    out[:] = np.frombuffer(joined, np.uint8)
