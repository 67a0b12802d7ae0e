"""Copy many extents of buffers, back to back or as bytes objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.buffers import empty
from dataformats.kernels.dispatch import kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def gather(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a copy of each `buffer[starts[i] : starts[i] + lengths[i]]`, back to back, and their offsets int64[n+1].

    Raises:
        ValueError: An extent does not lie in `buffer`; the message has its number.
    """
    return gather_from([buffer], np.zeros(len(starts), np.int64), starts, lengths)


def gather_from(
    buffers: Sequence[BytesLike], numbers: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what `gather` returns if extent `i` is in `buffers[numbers[i]]`.

    Raises:
        ValueError: An extent does not lie in its buffer; the message has its number.
    """
    numbers, starts, lengths = (np.ascontiguousarray(some, np.int64) for some in (numbers, starts, lengths))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = empty(max(0, int(offsets[-1])))
    failed = kernels().gather([*buffers], numbers, starts, lengths, values)
    if failed >= 0:
        where = f"start {starts[failed]}, length {lengths[failed]}" if failed < len(starts) else "the sum of all"
        raise ValueError(f"extent {failed} ({where}) is outside the buffer")
    return values, offsets


def bytes_list(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[bytes]:
    """Return a copy of each `buffer[starts[i] : starts[i] + lengths[i]]` as bytes.

    Raises:
        ValueError: An extent does not lie in `buffer`; the message has its number.
    """
    starts, lengths = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(lengths, np.int64)
    found: list[bytes] = kernels().bytes_list(buffer, starts, lengths)
    return found


def join_bytes(items: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a copy of all items, back to back, and their lengths int64[n].

    Raises:
        TypeError: An item is not bytes.
    """
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    return join_frames(b"", items, b"", int(lengths.sum())), lengths


def join_frames(heads: BytesLike, items: Sequence[bytes], feet: BytesLike, n_bytes: int) -> NDArray[np.uint8]:
    """Return a copy of all items, back to back, each between its head and its foot.

    Args:
        heads: The heads of all items, back to back and equally long.
        items: The items.
        feet: The feet of all items, in the same form.
        n_bytes: Bytes of all frames.

    Raises:
        TypeError: An item is not bytes.
        ValueError: The frames have other bytes in all, or heads or feet are not equally long.
    """
    frames = empty(n_bytes)
    kernels().join_frames(heads, items, feet, frames)
    return frames
