"""Finds the records of a damaged OFRecord file.

There are no checksums. A record counts as sound if its data are an OFRecord that fills the length in its header, and
nothing shows that the length is wrong. Changed numbers and texts cannot be noticed. Records of another payload prove
nothing: those before the first impossible length are kept.
"""

from __future__ import annotations

import numpy as np

from dataformats.backends.framed.framing import Framing, Octets
from dataformats.backends.framed.salvage import FrameEvidence, FrameSalvage
from dataformats.backends.framed.window_scan import ScannedFrames
from dataformats.backends.ofrecord.layout import FRAMING, HEADER
from dataformats.backends.ofrecord.sniff import begins_as_message
from dataformats.interfaces import RecordCodec, ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.registry import codecs

_ENTRY = 0x0A  # the first byte of a map's entry
_HEAD_BYTES = 64 * 1024
_MAX_BYTES = 2**31  # the longest protobuf message
_LENGTH_BYTES = 4  # header bytes that hold the length of such a message; the others are 0
_PIECE = 2**16


class _OFRecordEvidence(FrameEvidence):
    framing: Framing = FRAMING
    wrong_header = "a record has an impossible length"
    wrong_data = "the data of a record are empty, or not an OFRecord of its length"

    def __init__(self, payload: str) -> None:
        codec = codecs.get("ofrecord")
        self._is_message = codec.matches if payload == "ofrecord" and isinstance(codec, RecordCodec) else None
        self.recognizes_data = self._is_message is not None

    def damaged(self, window: Octets, frames: ScannedFrames, n_whole: int) -> list[int]:
        """Return the empty frames, those that are no OFRecord, and those whose data go on behind their end."""
        places = zip(frames.starts[:n_whole].tolist(), frames.ends[:n_whole].tolist(), strict=True)
        return [n for n, (start, end) in enumerate(places) if self._is_damaged(window, start + HEADER.size, end)]

    def _is_damaged(self, window: Octets, start: int, end: int) -> bool:
        if start == end:
            return True
        if self._is_message is None:
            return False
        if not self._is_message(window[start:end].tobytes()):
            return True
        # An OFRecord that lost its last entries is an OFRecord: then others follow it, instead of a header.
        behind = window[end : end + _HEAD_BYTES].tobytes()
        return any(behind[_LENGTH_BYTES : HEADER.size]) and begins_as_message(behind)

    def is_data(self, file: StoredFile, start: int, length: int) -> bool:
        if self._is_message is None or not 0 < length < _MAX_BYTES:
            return False
        if not begins_as_message(file.pread(start, min(length, _HEAD_BYTES))):
            return False
        return self._is_message(file.pread(start, length))

    def find(self, window: Octets, max_bytes: int) -> int:
        for first in range(0, len(window) - HEADER.size, _PIECE):
            piece = window[first : first + _PIECE + HEADER.size]
            n = len(piece) - HEADER.size
            likely = piece[HEADER.size :] == _ENTRY
            for byte in range(_LENGTH_BYTES, HEADER.size):
                likely &= piece[byte : byte + n] == 0
            for place in np.flatnonzero(likely).tolist():
                if 0 < HEADER.unpack_from(piece.data, place)[0] <= max_bytes:
                    return first + int(place)
        return -1


def salvage(file: StoredFile, payload: str) -> ShardSalvage:
    """Find the sound records of a file.

    Args:
        file: The file.
        payload: The codec of whole records; only `"ofrecord"` helps to recognize them.
    """
    return ShardSalvage(iter(FrameSalvage(file, _OFRecordEvidence(payload))))
