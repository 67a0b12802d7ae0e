"""The bytes of TFRecord, without I/O: FORMATS, TFRecord.

A record is a frame: uint64 length, uint32 masked CRC-32C of those 8 bytes, the data, uint32 masked CRC-32C of
the data; all little-endian. There is no file header and no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.framing import (
    MAX_LENGTH,
    NEXT_IS_LOST,
    Framing,
    Octets,
    Positions,
    gather_integers,
    length_problems,
    too_long,
)
from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, Remedy
from dataformats.interfaces import Check, Extents, KernelCheck, OutdatedIndexError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import (
    ENDS,
    FULL,
    UNSOUND,
    FrameCheck,
    crc32c_extents,
    crc32c_items,
    mask,
    masked_crc32c,
    scan_tfrecord,
    scan_tfrecord_header,
)

HEADER = Struct("<QI")  # length, masked CRC-32C of it
FOOTER_BYTES = 4  # masked CRC-32C of the data
FRAMING_BYTES = HEADER.size + FOOTER_BYTES
_LENGTH = Struct("<Q")
_NO_CHECKSUMS = Remedy("If another program wrote 0 for all checksums, pass {verify_checksums}.", verify_checksums=False)
_HEADER_DTYPE = np.dtype([("length", "<u8"), ("checksum", "<u4")])


def header_is_sound(head: bytes) -> bool:
    """True if 12 bytes begin with a length and its checksum."""
    if len(head) < HEADER.size:
        return False
    _, stored = HEADER.unpack_from(head)
    return bool(masked_crc32c(head[: _LENGTH.size]) == stored)


# ---- checking frames


def _length_checksums(octets: Octets, starts: Positions) -> NDArray[np.uint32]:
    return mask(crc32c_extents(octets, starts, np.full(len(starts), _LENGTH.size, np.int64)))


class TFRecordCheck(KernelCheck):
    """Verifies frames that an index located.

    Attributes:
        verify_checksums: False compares only the lengths.
    """

    def __init__(self, verify_checksums: bool = True) -> None:
        self.verify_checksums = verify_checksums
        self.kernel = FrameCheck.TFRECORD if verify_checksums else FrameCheck.LENGTH

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return the damaged frames, row to error with the offset of the frame."""
        offsets = extents.offset - HEADER.size
        found = gather_integers(frames.buffer, frames.starts, "<u8")
        problems = length_problems(found, extents.length, offsets)
        if not self.verify_checksums:
            return problems
        data = Blobs(frames.buffer, frames.starts + HEADER.size, extents.length)
        return (
            data_problems(data, offsets, extents.stored)
            | _checksum_problems(frames, offsets)
            | problems  # the first error of a frame in the file wins
        )


def data_problems(
    blobs: Blobs, offsets: Positions, indexed: NDArray[np.uint32] | None = None
) -> dict[int, FormatError]:
    """Return the records whose data contradict their checksum, row to error.

    Args:
        blobs: The data; the buffer holds the footer behind each.
        offsets: int64[n], where in the file each frame begins.
        indexed: uint32[n], the footers in the index; `None` if there is no index.
    """
    computed = mask(crc32c_extents(blobs.buffer, blobs.starts, blobs.lengths))
    stored = gather_integers(blobs.buffer, blobs.starts + blobs.lengths, "<u4")
    problems: dict[int, FormatError] = {}
    if indexed is not None:
        for at in np.flatnonzero(indexed != stored).tolist():
            problems[at] = OutdatedIndexError(
                "the checksum of a record's data differs from the index",
                offset_bytes=int(offsets[at]),
                expected=f"{indexed[at]:#010x} (index)",
                found=f"{stored[at]:#010x} (stored)",
            )
    for at in np.flatnonzero(computed != stored).tolist():
        problems[at] = _mismatch("the checksum of a record's data is wrong", stored[at], computed[at], offsets[at])
    return problems


def _checksum_problems(frames: Blobs, offsets: Positions) -> dict[int, FormatError]:
    computed = _length_checksums(frames.buffer, frames.starts)
    stored = gather_integers(frames.buffer, frames.starts + _LENGTH.size, "<u4")
    return {
        at: _mismatch("the checksum of a record's length is wrong", stored[at], computed[at], offsets[at])
        for at in np.flatnonzero(computed != stored).tolist()
    }


def _mismatch(message: str, stored: np.uint32, computed: np.uint32, offset: np.int64) -> ChecksumError:
    remedy = None if stored else _NO_CHECKSUMS
    return ChecksumError(message, stored=int(stored), computed=int(computed), offset_bytes=int(offset), remedy=remedy)


# ---- the framing


class _TFRecordFraming(Framing):
    name = "tfrecord"
    head: int = HEADER.size
    tail = FOOTER_BYTES
    findable = True

    def scan_window(
        self, window: Octets, offset: int, lengths: Positions, footers: NDArray[np.uint32]
    ) -> tuple[int, int, int]:
        return scan_tfrecord(window, offset, lengths, footers)

    def find_header(self, window: Octets, max_bytes: int) -> int:
        return scan_tfrecord_header(window, 0, max_bytes)

    def heads(self, lengths: Positions) -> Octets:
        heads = np.empty(len(lengths), _HEADER_DTYPE)
        heads["length"] = lengths
        octets, starts = lengths.astype("<u8").view(np.uint8), np.arange(len(lengths)) * _LENGTH.size
        heads["checksum"] = _length_checksums(octets, starts)
        return heads.view(np.uint8)

    def checksums(self, blobs: Sequence[bytes]) -> NDArray[np.uint32]:
        return mask(crc32c_items(blobs)).astype("<u4")

    def unsound_headers(self, octets: Octets, starts: Positions) -> NDArray[np.bool_]:
        stored = gather_integers(octets, starts + _LENGTH.size, "<u4")
        return np.asarray(_length_checksums(octets, starts) != stored)

    def header_problem(self, header: bytes, offset: int, path: str) -> FormatError:
        length, stored = HEADER.unpack(header)
        computed = masked_crc32c(header[: _LENGTH.size])
        if computed == stored:
            return too_long(length, offset, path)
        return ChecksumError(
            f"the checksum of a record's length ({length}) is wrong",
            stored=stored,
            computed=computed,
            path=path,
            offset_bytes=offset,
            remedy=NEXT_IS_LOST if stored else _NO_CHECKSUMS,
        )

    def data_problems(self, blobs: Blobs, offsets: Positions) -> dict[int, FormatError]:
        return data_problems(blobs, offsets)

    def check(self, verify_checksums: bool) -> Check:
        return TFRecordCheck(verify_checksums)


class _UncheckedFraming(_TFRecordFraming):
    name = "tfrecord-unchecked"
    findable = False

    def scan_window(
        self, window: Octets, offset: int, lengths: Positions, footers: NDArray[np.uint32]
    ) -> tuple[int, int, int]:
        n, at, size = 0, offset, len(window)
        while at + HEADER.size <= size:
            length, _ = HEADER.unpack_from(window.data, at)
            if n == len(lengths):
                return n, at, FULL
            if length > MAX_LENGTH:
                return n, at, UNSOUND
            lengths[n], footers[n] = length, 0
            n, at = n + 1, at + length + FRAMING_BYTES
        return n, at, ENDS

    def unsound_headers(self, octets: Octets, starts: Positions) -> NDArray[np.bool_]:
        return np.zeros(len(starts), np.bool_)

    def header_problem(self, header: bytes, offset: int, path: str) -> FormatError:
        return too_long(HEADER.unpack(header)[0], offset, path)


FRAMING = _TFRecordFraming()
"""The frames of TFRecord."""
UNCHECKED = _UncheckedFraming()
"""The frames of files whose writer left all checksums 0, for reads that verify none."""


def lacks_checksums(file: StoredFile) -> bool:
    """True if 0 stands for all checksums of the first frame, and of the header behind it, whose length fits."""
    end = 0
    for _ in range(2):
        head = file.pread(end, HEADER.size)
        length, stored = HEADER.unpack(head) if len(head) == HEADER.size else (0, 1)
        if stored or not 0 < length <= file.size - end - FRAMING_BYTES:
            return False
        if any(file.pread(end + HEADER.size + length, FOOTER_BYTES)):
            return False
        end += length + FRAMING_BYTES
        if end == file.size:
            break
    return True
