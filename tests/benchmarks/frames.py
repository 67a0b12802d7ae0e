"""TFRecord and OFRecord as a plain Python program reads them: record by record, with `os.pread`."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
TFRECORD_HEAD, TFRECORD_TAIL = 12, 4  # length and its checksum; the checksum of the data
OFRECORD_HEAD, OFRECORD_TAIL = 8, 0
_DELTA, _UINT32 = 0xA282EAD8, 0xFFFFFFFF  # constants of TFRecord's masked checksums


class Frames:
    """Offsets of the records of one file. This index, like ours, is built before the timing starts."""

    def __init__(self, path: Path, head: int, tail: int) -> None:
        self.file = os.open(path, os.O_RDONLY)
        size = os.fstat(self.file).st_size
        self.starts: list[int] = []
        self.lengths: list[int] = []
        at = 0
        while at < size:
            (length,) = _LENGTH.unpack(os.pread(self.file, _LENGTH.size, at))
            self.starts.append(at + head)
            self.lengths.append(length)
            at += head + length + tail

    def __del__(self) -> None:
        os.close(self.file)

    def read(self, indices: range) -> list[bytes]:
        """Return records as they are, without a check."""
        part = slice(indices.start, indices.stop)
        places = zip(self.starts[part], self.lengths[part], strict=True)
        return [os.pread(self.file, length, start) for start, length in places]

    def read_checked(self, indices: range, crc32c: Callable[[bytes], int]) -> list[bytes]:
        """Return records of a TFRecord, one `pread` each."""
        records = []
        part = slice(indices.start, indices.stop)
        for start, length in zip(self.starts[part], self.lengths[part], strict=True):
            stored = os.pread(self.file, length + TFRECORD_TAIL, start)
            record = stored[:length]
            crc = crc32c(record)
            if _CHECKSUM.unpack_from(stored, length)[0] != (crc >> 15 | crc << 17) + _DELTA & _UINT32:
                raise ValueError(f"the record at byte {start} is damaged")
            records.append(record)
        return records

    def read_window(self, indices: range, crc32c: Callable[[bytes], int]) -> list[bytes]:
        """Return records of a TFRecord that lie one after the other, with one `pread` for all of them."""
        part = slice(indices.start, indices.stop)
        starts, lengths = self.starts[part], self.lengths[part]
        first = starts[0]
        window = os.pread(self.file, starts[-1] + lengths[-1] + TFRECORD_TAIL - first, first)
        records = []
        for start, length in zip(starts, lengths, strict=True):
            at = start - first
            record = window[at : at + length]
            crc = crc32c(record)
            if _CHECKSUM.unpack_from(window, at + length)[0] != (crc >> 15 | crc << 17) + _DELTA & _UINT32:
                raise ValueError(f"the record at byte {start} is damaged")
            records.append(record)
        return records
