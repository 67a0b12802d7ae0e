"""The bytes of TFRecord, without I/O.

A record is a frame: uint64 length, uint32 masked CRC-32C of those 8 bytes, the data, uint32 masked CRC-32C of
the data; all little-endian. There is no file header and no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.kernels import crc32c_extents, mask, masked_crc32c

__all__ = ["FOOTER_BYTES", "FRAMING_BYTES", "HEADER", "FrameCheck", "Walk", "frame", "frames", "walk"]

HEADER = Struct("<QI")  # length, masked CRC-32C of it
FOOTER_BYTES = 4  # masked CRC-32C of the data
FRAMING_BYTES = HEADER.size + FOOTER_BYTES
_LENGTH = Struct("<Q")
_HEADER_DTYPE = np.dtype([("length", "<u8"), ("checksum", "<u4")])
_MAX_LENGTH = 2**62  # no file is longer, and positions behind such a record still fit int64

Octets = NDArray[np.uint8]
Positions = NDArray[np.int64]


# ---- making frames


def frame(blob: bytes) -> bytes:
    """Return the frame of one record."""
    return frames([blob])


def frames(blobs: Sequence[bytes]) -> bytes:
    """Return the frames of these records, back to back."""
    data = Blobs.join(blobs)
    heads = np.empty(len(blobs), _HEADER_DTYPE)
    heads["length"] = data.lengths
    octets = data.lengths.astype("<u8").view(np.uint8)
    eight = np.full(len(blobs), _LENGTH.size, np.int64)
    heads["checksum"] = mask(crc32c_extents(octets, np.cumsum(eight) - eight, eight))
    head = heads.tobytes()
    foot = mask(crc32c_extents(data.buffer, data.starts, data.lengths)).astype("<u4").tobytes()
    parts: list[bytes] = []
    for number, blob in enumerate(blobs):
        parts += (head[12 * number : 12 * number + 12], blob, foot[4 * number : 4 * number + 4])
    return b"".join(parts)


def header_is_sound(head: bytes) -> bool:
    """Return True where 12 bytes begin with a length whose checksum fits."""
    if len(head) < HEADER.size:
        return False
    _, stored = HEADER.unpack_from(head)
    return bool(masked_crc32c(head[: _LENGTH.size]) == stored)


# ---- finding frames


@dataclass(frozen=True, slots=True)
class Walk:
    """The frames whose headers lie in a window of bytes.

    Attributes:
        starts: int64[n], where in the window each frame begins. The last one may end behind the window.
        lengths: int64[n], bytes of data of each.
        stop: Where in (or behind) the window the next frame begins.
        problem: Why the header at `stop` cannot be trusted, or `None`.
    """

    starts: Positions
    lengths: Positions
    stop: int
    problem: FormatError | None = None

    @property
    def ends(self) -> Positions:
        """int64[n], where each frame ends."""
        return self.starts + self.lengths + FRAMING_BYTES


def walk(window: Octets, at: int, base: int, path: str) -> Walk:
    """Return the frames of a window, from one header to the next, up to the first header that is not sound.

    Args:
        window: uint8[size], a part of the file.
        at: Where in the window the first frame begins.
        base: Where in the file the window begins, for the problem.
        path: The file, for the problem.
    """
    memory, last, places = window.data, len(window) - HEADER.size, []
    unpack = _LENGTH.unpack_from
    while at <= last:  # with lengths not yet checked: Python's integers take a sum past 2**64
        places.append(at)
        at += unpack(memory, at)[0] + FRAMING_BYTES
    starts = np.array(places, np.int64)
    lengths = words(window, starts, "<u8")
    wrong = _headers_differ(window, starts) | (lengths > _MAX_LENGTH)
    if not wrong.any():
        return Walk(starts, lengths.astype(np.int64), at)
    n = int(np.argmax(wrong))
    stop = int(starts[n])
    problem = _header_problem(bytes(memory[stop : stop + HEADER.size]), base + stop, path)
    return Walk(starts[:n], lengths[:n].astype(np.int64), stop, problem)


def words(octets: Octets, places: Positions, dtype: str) -> NDArray[Any]:
    """Return the integers at any places of a buffer, `(n,)` of `dtype`."""
    width = np.arange(np.dtype(dtype).itemsize)
    found: NDArray[Any] = octets[places[:, np.newaxis] + width].view(dtype).reshape(len(places))
    return found


def headers_are_sound(octets: Octets, starts: Positions, lengths: Positions) -> bool:
    """Return True where a sound header with that length stands at each start."""
    same = words(octets, starts, "<u8") == lengths.astype(np.uint64)
    return bool(same.all() and not _headers_differ(octets, starts).any())


def cut_short(offset: int, length: int, size: int, path: str) -> TruncatedError:
    """Return the error of a frame that reaches past the end of its file."""
    return TruncatedError(
        "a record reaches past the end of the file",
        path=path,
        offset_bytes=offset,
        expected=f"{length + FRAMING_BYTES} bytes (frame and data)",
        found=f"{size - offset} bytes",
    )


def no_frame(offset: int, left: int, path: str) -> TruncatedError:
    """Return the error of a rest that is too short for a header."""
    return TruncatedError(
        "the file ends inside the header of a record, or bytes follow the last record",
        path=path,
        offset_bytes=offset,
        expected=f"{FRAMING_BYTES} bytes or more",
        found=f"{left} bytes",
    )


def _length_checksums(octets: Octets, starts: Positions) -> NDArray[np.uint32]:
    return mask(crc32c_extents(octets, starts, np.full(len(starts), _LENGTH.size, np.int64)))


def _headers_differ(octets: Octets, starts: Positions) -> NDArray[np.bool_]:
    stored = words(octets, starts + _LENGTH.size, "<u4")
    return np.asarray(_length_checksums(octets, starts) != stored)


def _header_problem(head: bytes, offset: int, path: str) -> FormatError:
    length, stored = HEADER.unpack(head)
    computed = masked_crc32c(head[: _LENGTH.size])
    if computed == stored:
        return TruncatedError(
            "a record is longer than any file",
            path=path,
            offset_bytes=offset,
            expected=f"a length up to {_MAX_LENGTH}",
            found=length,
        )
    return ChecksumError(
        f"checksum of a record's length ({length})",
        stored=stored,
        computed=computed,
        path=path,
        offset_bytes=offset,
        remedy="Where the next record begins cannot be known",
    )


# ---- checking frames


@dataclass(frozen=True, slots=True)
class FrameCheck:
    """Verifies frames that were read through an index.

    Attributes:
        verify_checksums: False compares the length fields alone.
    """

    verify_checksums: bool = True

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return what is wrong, position to error with the offset of the frame."""
        offsets = extents.offset - HEADER.size
        found = words(frames.buffer, frames.starts, "<u8")
        problems = _length_problems(found, extents.length, offsets)
        if not self.verify_checksums:
            return problems
        data = Blobs(frames.buffer, frames.starts + HEADER.size, extents.length)
        return (
            data_problems(data, offsets, extents.stored)
            | _checksum_problems(frames, offsets)
            | problems  # what is wrong first is what is told
        )


def data_problems(
    blobs: Blobs, offsets: Positions, indexed: NDArray[np.uint32] | None = None
) -> dict[int, FormatError]:
    """Return the records whose data do not fit their checksum, position to error.

    Args:
        blobs: The data; the footer of each stands behind it in the buffer.
        offsets: int64[n], where in the file each frame begins.
        indexed: uint32[n], the footers as an index has them; `None` where none does.
    """
    computed = mask(crc32c_extents(blobs.buffer, blobs.starts, blobs.lengths))
    stored = words(blobs.buffer, blobs.starts + blobs.lengths, "<u4")
    problems: dict[int, FormatError] = {}
    if indexed is not None:
        for at in np.flatnonzero(indexed != stored).tolist():
            what = "checksum of a record's data, which is not the one in the index any more"
            problems[at] = _mismatch(what, indexed[at], stored[at], offsets[at])
    for at in np.flatnonzero(computed != stored).tolist():
        problems[at] = _mismatch("checksum of a record's data", stored[at], computed[at], offsets[at])
    return problems


def _length_problems(found: NDArray[Any], expected: Positions, offsets: Positions) -> dict[int, FormatError]:
    return {
        at: FormatError(
            "the length of a record is not the one in the index",
            offset_bytes=int(offsets[at]),
            expected=int(expected[at]),
            found=int(found[at]),
            remedy="If the file was changed in place, delete its index and open it again",
        )
        for at in np.flatnonzero(found != expected.astype(np.uint64)).tolist()
    }


def _checksum_problems(frames: Blobs, offsets: Positions) -> dict[int, FormatError]:
    computed = _length_checksums(frames.buffer, frames.starts)
    stored = words(frames.buffer, frames.starts + _LENGTH.size, "<u4")
    return {
        at: _mismatch("checksum of a record's length", stored[at], computed[at], offsets[at])
        for at in np.flatnonzero(computed != stored).tolist()
    }


def _mismatch(what: str, stored: np.uint32, computed: np.uint32, offset: np.int64) -> ChecksumError:
    return ChecksumError(what, stored=int(stored), computed=int(computed), offset_bytes=int(offset))
