"""Decompress the bytes around the extents of a batch, so that the kernels read the blobs from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import Extents, KernelCheck
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck, buffers
from dataformats.storage.compressed.seekable_gzip import DecompressedFile

__all__ = ["Windows", "decompress_around"]

_MAX_FILES = 16  # files of one batch
_SPREAD = 2  # times the bytes of the blobs: a window with longer gaps holds too many bytes that are not needed


class Windows(NamedTuple):
    """The memory in which the blobs of a batch lie.

    Attributes:
        extents: The extents of each field, with numbers of windows, and offsets in them.
        facts: The arguments of `hold_files`: the address of each window, its size, and no time.
        buffers: The windows, which must live as long as their addresses are used.
    """

    extents: Sequence[Extents]
    facts: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]
    buffers: object


def decompress_around(files: Sequence[StoredFile], extents: Extents, max_bytes: int) -> Windows | None:
    """Return the windows of these extents; `None` if they are too far apart, or the reference path must read them.

    Args:
        files: The files that the extents number.
        extents: Where the blobs lie.
        max_bytes: The most bytes of a blob.
    """
    length = extents.length
    if not len(extents) or extents.problems or length.min() < 0 or length.max() > max_bytes:
        return None
    numbers = [int(extents.file[0])] if (extents.file == extents.file[0]).all() else np.unique(extents.file).tolist()
    if len(numbers) > _MAX_FILES or not 0 <= numbers[0] <= numbers[-1] < len(files):
        return None
    addresses, sizes = np.zeros(len(files), np.uint64), np.zeros(len(files), np.int64)
    offset, windows = extents.offset - extents.head, []
    for number in numbers:
        here = slice(None) if len(numbers) == 1 else extents.file == number
        begin, size = offset[here], length[here] + (extents.head + extents.tail)
        first, last = int(begin.min()), int((begin + size).max())
        is_checked = isinstance(extents.check, KernelCheck) and extents.check.kernel == FrameCheck.TFRECORD
        window = _decompressed(files[number], first, last, _SPREAD * int(size.sum()), is_checked=is_checked)
        if window is None:
            return None
        addresses[number], sizes[number] = window.ctypes.data, len(window)
        offset[here] -= first
        windows.append(window)
    around = (extents.head, extents.tail, extents.stored, extents.check)
    moved = Extents(extents.file, offset + extents.head, length, *around)
    return Windows([moved], (addresses, sizes, np.full(len(files), -1, np.int64)), windows)


def _decompressed(
    file: StoredFile, first: int, last: int, max_bytes: int, *, is_checked: bool
) -> NDArray[np.uint8] | None:
    if not file.is_compressed or not 0 <= first <= last <= file.size or last - first > max_bytes:
        return None
    window = buffers.empty(last - first)
    read = file.read_in_order if is_checked and isinstance(file, DecompressedFile) else file.read_into
    try:
        n = read(first, window.data)
    except FormatError:
        return None
    return window if n == len(window) else None
