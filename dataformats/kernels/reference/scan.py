"""Scan frames, lines, or JSON documents in a window of bytes, in plain Python and numpy."""

from __future__ import annotations

import functools
import operator
import re
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.reference.checksums import byte_table, mask, octets_of

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

ENDS = 0
"""A scan stopped because the next header is not wholly in the window."""
FULL = 1
"""A scan stopped because the output has no room for the next frame."""
UNSOUND = 2
"""A scan stopped because the next header is invalid: its checksum or its length."""
CLOSED = 3
"""A scan stopped because the list or object whose values are counted has ended."""

MAX_LENGTH = 2**62  # no file is longer, and positions behind such a record still fit int64

_LENGTH = Struct("<Q")
_TFRECORD_HEAD, _TFRECORD_TAIL, _OFRECORD_HEAD = 12, 4, 8
_PIECE_BYTES = 1 << 16  # bounds the temporary arrays of a search
_STATE = "state must be a writable int64 array of the open brackets, from 0 on, and 0, 1 or 2"
_DEPTH = {b"[": 1, b"{": 1, b",": 0, b"]": -1, b"}": -1}
_TEXT = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_JSON_TEXT = re.compile(_TEXT + rb'("|\\?\Z)', re.DOTALL)  # to its quote, or the end of the window: behind a backslash?
_JSON_TOKEN = re.compile(rb'(?:[^"\[\]{},]++|"' + _TEXT + rb'")*+(?:([\[\]{},])|"' + _TEXT + rb"(\\?)\Z|\Z)", re.DOTALL)

Octets = NDArray[np.uint8]
Found = tuple[int, int, int]


def scan_tfrecord(window: BytesLike, at: int, lengths: NDArray[np.int64], footers: NDArray[np.uint32], /) -> Found:
    """Scan the TFRecords of a window: the contract is `dataformats.kernels.scan_tfrecord`."""
    octets, at = octets_of(window), _position("at", at)
    _check_lengths(lengths)
    _check_footers(footers)
    if len(lengths) != len(footers):
        found = f"{len(lengths)} and {len(footers)}"
        raise ValueError(f"lengths and footers must be equally long, found {found}")
    extra = _TFRECORD_HEAD + _TFRECORD_TAIL
    starts, stop = _chain(octets, at, _TFRECORD_HEAD, extra, len(lengths))
    headers = _words(octets, starts, _TFRECORD_HEAD)
    stored = headers[:, 8:].copy().view("<u4").reshape(-1)
    length = headers[:, :8].copy().view("<u8").reshape(-1)
    sound = (mask(_crc32c_of_eights(headers[:, :8])) == stored) & (length <= MAX_LENGTH)
    n, stop, why = _stopped(starts, stop, sound, len(octets) - _TFRECORD_HEAD)
    ends = starts[:n] + extra + length[:n].astype(np.int64)
    n_whole = int(np.count_nonzero(ends <= len(octets)))  # all, or all but the last
    lengths[:n] = length[:n]
    footers[:n] = 0
    footers[:n_whole] = _words(octets, ends[:n_whole] - _TFRECORD_TAIL, 4).view("<u4").reshape(-1)
    return n, stop, why


def scan_ofrecord(window: BytesLike, at: int, lengths: NDArray[np.int64], /) -> Found:
    """Scan the OFRecords of a window: the contract is `dataformats.kernels.scan_ofrecord`."""
    octets, at = octets_of(window), _position("at", at)
    _check_lengths(lengths)
    starts, stop = _chain(octets, at, _OFRECORD_HEAD, _OFRECORD_HEAD, len(lengths))
    length = _words(octets, starts, _OFRECORD_HEAD).view("<u8").reshape(-1)
    n, stop, why = _stopped(starts, stop, length <= MAX_LENGTH, len(octets) - _OFRECORD_HEAD)
    lengths[:n] = length[:n]
    return n, stop, why


def scan_tfrecord_header(window: BytesLike, at: int, most: int, /) -> int:
    """Search for a header of a TFRecord: the contract is `dataformats.kernels.scan_tfrecord_header`."""
    at, most = _position("at", at), min(_position("most", most), MAX_LENGTH)
    octets = octets_of(window)
    for first in range(at, len(octets) - _TFRECORD_HEAD + 1, _PIECE_BYTES):
        piece = octets[first : first + _PIECE_BYTES + _TFRECORD_HEAD - 1]
        eights = np.lib.stride_tricks.sliding_window_view(piece, 8)[: len(piece) - _TFRECORD_HEAD + 1]
        length = eights.copy().view("<u8").reshape(-1)
        likely = np.flatnonzero(length <= most)
        stored = _words(piece, likely + 8, 4).view("<u4").reshape(-1)
        fitting = likely[mask(_crc32c_of_eights(eights[likely])) == stored]
        if len(fitting):
            return first + int(fitting[0])
    return -1


def scan_lines(window: BytesLike, at: int, lengths: NDArray[np.int64], /) -> tuple[int, int, int, int]:
    """Find the lines of a window: the contract is `dataformats.kernels.scan_lines`."""
    data, at = octets_of(window).tobytes(), _position("at", at)
    _check_lengths(lengths)
    n = n_crlf = n_blank = 0
    while n < len(lengths) and (end := data.find(b"\n", at) + 1):
        line = data[at:end]
        is_blank = not line.strip(b" \t\r\n")
        lengths[n] = -len(line) if is_blank else len(line)
        n, at = n + 1, end
        n_crlf += line.endswith(b"\r\n")
        n_blank += is_blank
    return n, at, n_crlf, n_blank


def scan_json(window: BytesLike, at: int, level: int, state: NDArray[np.int64], ends: NDArray[np.int64], /) -> Found:
    """Find the ends of the values of a JSON document: the contract is `dataformats.kernels.scan_json`."""
    data, at = octets_of(window).tobytes(), _position("at", at)
    _check_lengths(ends)
    if not _is_out(state, np.dtype(np.int64)):
        raise TypeError(_STATE)
    if len(state) != 2 or not 0 <= state[0] < 2**62 or not 0 <= state[1] <= 2:
        raise ValueError(_STATE)
    if level not in (0, 1):
        raise ValueError(f"level must be 0 or 1, found {level}")
    n, depth, text, why = 0, int(state[0]), int(state[1]), ENDS
    if text and at < len(data):
        found = _JSON_TEXT.match(data, at + (text == 2))
        assert found is not None  # it matches no bytes, too
        text, at = {b'"': 0, b"": 1, b"\\": 2}[found[1]], found.end()
    while at < len(data) and why == ENDS:
        if n == len(ends):
            why = FULL
            break
        token = _JSON_TOKEN.match(data, at)
        assert token is not None  # it matches no bytes, too
        at, byte = token.end(), token[1]
        if byte is None:
            text = 0 if token[2] is None else 1 + len(token[2])
            continue
        depth += _DEPTH[byte]
        why = CLOSED if depth < level else ENDS
        if depth == level and (byte == b"," if level else byte in b"]}"):
            ends[n] = at
            n += 1
    state[:] = depth, text
    return n, at, why


def _chain(octets: Octets, at: int, head: int, extra: int, room: int) -> tuple[NDArray[np.int64], int]:
    """Return where frames begin, int64[n] with n up to `room`, and where the next one begins, without any checks."""
    memory, last, unpack = octets.data, len(octets) - head, _LENGTH.unpack_from
    places: list[int] = []
    while at <= last and len(places) < room:  # the sum may pass 2**64
        places.append(at)
        at += unpack(memory, at)[0] + extra
    return np.array(places, np.int64), at


def _stopped(starts: NDArray[np.int64], stop: int, sound: NDArray[np.bool_], last: int) -> Found:
    """Return the number of frames before the first invalid one, the end of these, and why the scan stopped."""
    if not sound.all():
        n = int(np.argmin(sound))
        return n, int(starts[n]), UNSOUND
    return len(starts), stop, FULL if stop <= last else ENDS


def _words(octets: Octets, places: NDArray[np.int64], n_bytes: int) -> Octets:
    """Return the bytes at places of a buffer, `(n, n_bytes) uint8`."""
    found: Octets = octets[places[:, np.newaxis] + np.arange(n_bytes)]
    return found


def _crc32c_of_eights(eights: Octets) -> NDArray[np.uint32]:
    """Return the CRC-32C of each row of `(n, 8) uint8`."""
    table = _table()
    register = np.full(len(eights), 0xFFFFFFFF, np.uint32)
    for column in range(8):
        register = table[(register ^ eights[:, column]) & np.uint32(0xFF)] ^ (register >> np.uint32(8))
    return register ^ np.uint32(0xFFFFFFFF)


@functools.cache
def _table() -> NDArray[np.uint32]:
    return np.array(byte_table(), np.uint32)


def _position(name: str, position: int) -> int:
    position = operator.index(position)
    if not 0 <= position < 2**63:
        raise ValueError(f"{name} must be in [0, 2**63), found {position}")
    return position


def _check_lengths(array: NDArray[Any]) -> None:
    if not _is_out(array, np.dtype(np.int64)):
        raise TypeError("lengths must be a writable contiguous int64 array of one dimension")


def _check_footers(array: NDArray[Any]) -> None:
    if not _is_out(array, np.dtype(np.uint32)):
        raise TypeError("footers must be a writable contiguous uint32 array of one dimension")


def _is_out(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    return array.ndim == 1 and array.dtype == dtype and bool(array.flags.carray)
