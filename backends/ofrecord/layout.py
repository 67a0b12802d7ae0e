"""The bytes of OFRecord, without I/O: FORMATS, OFRecord.

A record is a frame: int64 length, little-endian, and the data. There is no checksum, no file header and no index.
"""

from __future__ import annotations

from struct import Struct

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import (
    NEXT_IS_LOST,
    Framing,
    Octets,
    Positions,
    gather_integers,
    length_problems,
    too_long,
)
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Check, Extents, KernelCheck
from dataformats.kernels import FrameCheck, scan_ofrecord

HEADER = Struct("<q")  # length of the data


class _OFRecordFraming(Framing):
    name = "ofrecord"
    head: int = HEADER.size
    tail = 0
    min_length = 1  # OneFlow's reader ends the process at a length of 0

    def scan_window(
        self, window: Octets, offset: int, lengths: Positions, footers: NDArray[np.uint32]
    ) -> tuple[int, int, int]:
        return scan_ofrecord(window, offset, lengths)

    def heads(self, lengths: Positions) -> Octets:
        return lengths.astype("<i8").view(np.uint8)

    def unsound_headers(self, octets: Octets, starts: Positions) -> NDArray[np.bool_]:
        return np.asarray(gather_integers(octets, starts, "<i8") < 0)

    def header_problem(self, header: bytes, offset: int, path: str) -> FormatError:
        (length,) = HEADER.unpack(header)
        if length >= 0:
            return too_long(length, offset, path)
        return FormatError(
            "a record has a negative length",
            path=path,
            offset_bytes=offset,
            expected="0 or more",
            found=length,
            remedy=NEXT_IS_LOST,
        )

    def data_problems(self, blobs: Blobs, offsets: Positions) -> dict[int, FormatError]:
        return {}  # there is no checksum

    def check(self, verify_checksums: bool) -> Check:
        return _LengthCheck()


class _LengthCheck(KernelCheck):
    """Compares the lengths of frames with the index, which finds files that were changed in place."""

    kernel = FrameCheck.LENGTH

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        found = gather_integers(frames.buffer, frames.starts, "<i8")
        return length_problems(found, extents.length, extents.offset - HEADER.size)


FRAMING = _OFRecordFraming()
"""The frames of OFRecord."""
