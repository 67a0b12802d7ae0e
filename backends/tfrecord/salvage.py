"""Finds the sound records of a damaged TFRecord: header and data of each have a checksum."""

from __future__ import annotations

import numpy as np

from dataformats.backends.framed.framing import Framing, Octets
from dataformats.backends.framed.salvage import FrameEvidence, FrameSalvage
from dataformats.backends.framed.window_scan import ScannedFrames
from dataformats.backends.tfrecord.compression import decompress_file
from dataformats.backends.tfrecord.layout import FOOTER_BYTES, FRAMING, HEADER, header_is_sound
from dataformats.batch import Blobs
from dataformats.interfaces import ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32c, mask

_PIECE = 4 * 2**20
_TRAILER_DAMAGE = ("incorrect data check)", "incorrect length check)")  # found behind all data


class _TFRecordEvidence(FrameEvidence):
    framing: Framing = FRAMING
    wrong_header = "the checksum of a record's length is wrong"
    wrong_data = "the checksum of a record's data is wrong"

    def damaged(self, window: Octets, frames: ScannedFrames, n_whole: int) -> list[int]:
        blobs = Blobs(window, frames.starts[:n_whole] + HEADER.size, frames.lengths[:n_whole])
        return sorted(self.framing.data_problems(blobs, np.zeros(n_whole, np.int64)))

    def is_header(self, header: bytes) -> bool:
        return header_is_sound(header)

    def is_data(self, file: StoredFile, start: int, length: int) -> bool:
        checksum, end = 0, start + length
        for at in range(start, end, _PIECE):
            checksum = crc32c(file.pread(at, min(_PIECE, end - at)), checksum)
        return file.pread(end, FOOTER_BYTES) == int(mask(checksum)).to_bytes(FOOTER_BYTES, "little")

    def find(self, window: Octets, max_bytes: int) -> int:
        return self.framing.find_header(window, max_bytes)

    def possible_lengths(self, header: bytes) -> list[int]:
        """Return the stored length, whose checksum may be wrong, and all lengths that differ from it by one bit."""
        length = int.from_bytes(header[:8], "little")
        return [length, *(length ^ 1 << bit for bit in range(64))]


def salvage(file: StoredFile) -> ShardSalvage:
    """Find the sound records of a file, or of a compressed file the records before the damage of the compression.

    Args:
        file: The file as stored.
    """
    plain = decompress_file(file, "auto")
    options = {"compression": plain.compression} if plain.is_compressed else {}
    damage = plain.damage if plain.size >= 0 else None  # reading the size finds the damage
    notes = []
    if damage is not None and damage.what.endswith(_TRAILER_DAMAGE):
        notes.append(f"{file.name}: {damage.what}, behind all data")
        damage = None
    return ShardSalvage(iter(FrameSalvage(plain, _TFRecordEvidence(), damage)), options=options, notes=notes)
