"""Scan frames, lines, or JSON documents in a window of bytes, to index a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.dispatch import kernels

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike


def scan_tfrecord(
    window: BytesLike, at: int, lengths: NDArray[np.int64], footers: NDArray[np.uint32]
) -> tuple[int, int, int]:
    """Scan the headers of TFRecords in a window. Data are neither read nor verified.

    A header is valid if its checksum matches and its length is at most 2**62.

    Args:
        window: Any C-contiguous buffer.
        at: The begin of the first frame in it, 0 or more.
        lengths: int64[room], filled with the data length of each frame whose header is in the window.
        footers: uint32[room], filled with the stored checksum behind the data; 0 if it is not wholly in the window,
            which can only happen to the last frame.

    Returns:
        The number of frames; the begin of the next frame, in the window or behind it; and why the scan stopped:
        `ENDS` (the next header is not wholly in the window), `FULL` (no room for it), `UNSOUND` (it is invalid).

    Raises:
        ValueError: `at` is not in [0, 2**63), or the outputs are not equally long.
        TypeError: An output has another dtype.
    """
    return kernels().scan_tfrecord(window, at, lengths, footers)  # type: ignore[no-any-return]  # either module


def scan_ofrecord(window: BytesLike, at: int, lengths: NDArray[np.int64]) -> tuple[int, int, int]:
    """Scan the headers of OFRecords in a window, as `scan_tfrecord` does.

    There are no checksums: a length from 0 to 2**62 is valid.
    """
    return kernels().scan_ofrecord(window, at, lengths)  # type: ignore[no-any-return]  # either module


def scan_lines(window: BytesLike, at: int, lengths: NDArray[np.int64]) -> tuple[int, int, int, int]:
    r"""Find the ends of the lines of a window: each line ends in `\n`.

    Args:
        window: Any C-contiguous buffer.
        at: The begin of the first line in it, 0 or more.
        lengths: int64[room], filled with the bytes of each line that ends in the window, its `\n` included; negative if
            the line is blank: spaces, `\t` and `\r` alone.

    Returns:
        The number of lines, at most `room`; the byte behind the last of them; how many of them end in `\r\n`; and how
        many are blank.

    Raises:
        ValueError: `at` is not in [0, 2**63).
        TypeError: `lengths` has another dtype.
    """
    return kernels().scan_lines(window, at, lengths)  # type: ignore[no-any-return]  # either module


def scan_json(
    window: BytesLike, at: int, level: int, state: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Find the ends of the values of a JSON document in a window.

    Text, escapes and depth are followed; nothing else is verified.

    Args:
        window: Any C-contiguous buffer.
        at: Where to begin in it, 0 or more.
        level: 1: the values between commas, in the list or object that is open at depth 1. 0: lists and objects, one
            behind another.
        state: int64[2], changed by the scan: the lists and objects that are open; and 0 outside of text, 1 in it, 2
            behind a backslash in it.
        ends: int64[room], filled with the byte behind the comma of each value, or behind the bracket at its end.

    Returns:
        The number of ends; where the scan stopped; and why: `ENDS` (of the window), `FULL` (no room for another end),
        `CLOSED` (behind the bracket that leaves the level).

    Raises:
        ValueError: `at`, `level` or `state` is out of range.
        TypeError: `state` or `ends` has another dtype.
    """
    return kernels().scan_json(window, at, level, state, ends)  # type: ignore[no-any-return]  # either module


def scan_tfrecord_header(window: BytesLike, at: int, most: int) -> int:
    """Return the first place from `at` on of 12 bytes that could be a TFRecord's header, or -1.

    They hold a length up to `most` and its checksum. They may be part of a record's data.
    """
    return kernels().scan_tfrecord_header(window, at, most)  # type: ignore[no-any-return]  # either module
