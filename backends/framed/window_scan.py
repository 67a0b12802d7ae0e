"""Finds the frames of a window of bytes, without I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dataformats.backends.framed.framing import Framing, Octets, Positions, gather_integers
from dataformats.errors import FormatError, TruncatedError
from dataformats.kernels import UNSOUND


@dataclass(frozen=True, slots=True)
class ScannedFrames:
    """The frames whose headers lie in a window of bytes.

    Attributes:
        starts: int64[n], where in the window each frame begins. The last one may end behind the window.
        lengths: int64[n], bytes of data of each.
        ends: int64[n], where each frame ends.
        stop: Where in (or behind) the window the next frame begins.
        problem: Why the header at `stop` cannot be trusted, or `None`.
    """

    starts: Positions
    lengths: Positions
    ends: Positions
    stop: int
    problem: FormatError | None = None


def find_frames(framing: Framing, window: Octets, offset: int, base: int, path: str) -> ScannedFrames:
    """Return the frames of a window, from one header to the next, up to the first header that is not sound.

    Args:
        framing: The frames of the format.
        window: uint8[size], a part of the file.
        offset: Where in the window the first frame begins.
        base: Where in the file the window begins, for the problem.
        path: The file, for the problem.
    """
    room = len(window) // framing.extra + 1
    lengths, footers = np.empty(room, np.int64), np.empty(room, np.uint32)
    n, stop, why = framing.scan_window(window, offset, lengths, footers)
    lengths = lengths[:n].copy()
    ends = offset + np.cumsum(lengths + framing.extra)
    problem = header_problem(framing, window, stop, base, path) if why == UNSOUND else None
    return ScannedFrames(ends - lengths - framing.extra, lengths, ends, stop, problem)


def header_problem(framing: Framing, window: Octets, offset: int, base: int, path: str) -> FormatError:
    """Return the error of an unsound header in a window.

    Args:
        framing: The frames of the format.
        window: uint8[size], a part of the file.
        offset: Where in the window the header begins.
        base: Where in the file the window begins.
        path: The file.
    """
    return framing.header_problem(window[offset : offset + framing.head].tobytes(), base + offset, path)


def headers_are_sound(framing: Framing, octets: Octets, starts: Positions, lengths: Positions) -> bool:
    """True if every start has a sound header with that length."""
    same = gather_integers(octets, starts, "<u8") == lengths.astype(np.uint64)
    return bool(same.all() and not framing.unsound_headers(octets, starts).any())


def cut_short(framing: Framing, offset: int, length: int, size: int, path: str) -> TruncatedError:
    """Return the error of a frame that reaches past the end of its file."""
    return TruncatedError(
        "a record reaches past the end of the file",
        path=path,
        offset_bytes=offset,
        expected=f"{length + framing.extra} bytes (frame and data)",
        found=f"{size - offset} bytes",
    )


def no_frame(framing: Framing, offset: int, left: int, path: str) -> TruncatedError:
    """Return the error of `left` last bytes that are too few for a frame."""
    return TruncatedError(
        "the file ends inside the header of a record, or bytes follow the last record",
        path=path,
        offset_bytes=offset,
        expected=f"{framing.extra} bytes or more",
        found=f"{left} bytes",
    )
