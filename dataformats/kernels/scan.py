"""Scans: from frame to frame through a window of bytes, which builds the index of a file that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.dispatch import kernels
from dataformats.kernels.reference.scan import ENDS, FULL, UNSOUND

if TYPE_CHECKING:
    from dataformats.kernels.reference import BytesLike

__all__ = ["ENDS", "FULL", "UNSOUND", "scan_ofrecord", "scan_tfrecord", "scan_tfrecord_header"]


def scan_tfrecord(
    window: BytesLike, at: int, lengths: NDArray[np.int64], footers: NDArray[np.uint32]
) -> tuple[int, int, int]:
    """Walk from header to header through the TFRecords of a window; data are neither read nor checked.

    A header is sound if its checksum fits and its length is 2**62 at most.

    Args:
        window: Any C-contiguous buffer.
        at: Where in it the first record's frame begins, 0 or more.
        lengths: int64[room], filled with the bytes of data of each frame whose header lies in the window.
        footers: uint32[room], filled with the checksum behind these data as stored; 0 where it does not lie in the
            window with all its bytes, which can happen to the last frame only.

    Returns:
        The number of frames; where in the window, or behind it, the next frame begins; and why the walk stopped:
        `ENDS` (its header is not there with all its bytes), `FULL` (no room for it), `UNSOUND` (it cannot be right).

    Raises:
        ValueError: `at` is not in [0, 2**63), or the outputs are not equally long.
        TypeError: The outputs are not such arrays.
    """
    return kernels().scan_tfrecord(window, at, lengths, footers)  # type: ignore[no-any-return]  # either module


def scan_ofrecord(window: BytesLike, at: int, lengths: NDArray[np.int64]) -> tuple[int, int, int]:
    """Walk from header to header through the OFRecords of a window, as `scan_tfrecord` does.

    There are no checksums: a length is sound from 0 to 2**62.
    """
    return kernels().scan_ofrecord(window, at, lengths)  # type: ignore[no-any-return]  # either module


def scan_tfrecord_header(window: BytesLike, at: int, most: int) -> int:
    """Return where from `at` on the first 12 bytes stand that could be a TFRecord's header, or -1.

    They hold a length up to `most` and the checksum that fits it. They may be part of some record's data.
    """
    return kernels().scan_tfrecord_header(window, at, most)  # type: ignore[no-any-return]  # either module
