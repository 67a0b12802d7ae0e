"""Scans the frames of a file: a uint32 magic number, 3 bits of a flag and 29 bits of a length, the data, padding to 4.

Data that contain the magic number at a multiple of 4 are written as several frames, without that word: the flag is 0
for a whole record, else 1 for its first part, 2 for those in the middle, 3 for the last (dmlc-core, recordio.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np

from dataformats.errors import FormatError, TruncatedError
from dataformats.indexing.damaged_scan import scan_past_damage
from dataformats.indexing.fields_reader import DERIVED
from dataformats.indexing.file_index import ArrayIndex, FileIndex
from dataformats.interfaces import StoredFile
from dataformats.spec import VALUE
from dataformats.storage.header_reader import HeaderReader

MAGIC = 0xCED7230A
FRAME = Struct("<II")  # magic, flag and length
IMAGE_HEADER = Struct("<IfQQ")  # number of labels if they are several, the label if it is one, id, id2
_WORD = Struct("<I")
_HEAD = Struct("<III")  # a frame, and the first word of its data
_MAGIC = _WORD.pack(MAGIC)
_WINDOW = 2**16


def frame_problem(head: bytes, at: int, file: StoredFile, expected_flags: tuple[int, ...]) -> FormatError | None:
    """Return the error of the frame at byte `at`; `None` if it is sound.

    Args:
        head: The first bytes of the frame, 8 unless the file ends.
        at: Its place.
        file: The file.
        expected_flags: The flags that it may have.
    """
    if len(head) < FRAME.size:
        what, found = "the file ends in the header of a frame", f"{len(head)} bytes"
        return TruncatedError(what, path=file.name, offset_bytes=at, expected="8 bytes", found=found)
    magic, word = FRAME.unpack(head)
    if magic != MAGIC:
        what = "no frame begins here"
        return FormatError(what, path=file.name, offset_bytes=at, expected=hex(MAGIC), found=hex(magic))
    if word >> 29 not in expected_flags:
        flags = " or ".join(map(str, expected_flags))
        return FormatError("wrong flag of a frame", path=file.name, offset_bytes=at, expected=flags, found=word >> 29)
    left, length = file.size - at - FRAME.size, word & (2**29 - 1)
    if length > left:
        what, expected = "a record reaches past the end of the file", f"at most {left} bytes"
        return TruncatedError(what, path=file.name, offset_bytes=at, expected=expected, found=f"{length} bytes")
    return None


class Record(NamedTuple):
    """A record that a scan found.

    Attributes:
        begin: Where its first frame begins.
        stop: Where its last frame ends.
        n_labels: The first uint32 of its data, 0 if they are too short for labels.
        length: The bytes of its data.
        parts: The ranges of the file that its data are put together from, if it is in several frames.
    """

    begin: int
    stop: int
    n_labels: int
    length: int
    parts: tuple[range, ...]


def scan(file: StoredFile) -> FileIndex:
    """Return the records of a file, from one pass over its frames.

    The `stored` number of a record is its number of labels. A record in several frames lies in the file that the
    metadata describe: ranges of this file, back to back. A damaged range is one more record.
    """
    starts, lengths, labels = list[int](), list[int](), list[int]()
    parts: list[list[int]] = []
    n_split = 0  # the bytes of the records in several frames
    problems: dict[int, FormatError] = {}
    scanner = RecordScanner(file)
    for found in scan_past_damage(file, scanner.records, scanner.find):
        if isinstance(found, FormatError):
            problems[len(starts)] = found
            start = length = n_labels = 0
        else:
            start, n_labels, length = found.begin + FRAME.size, found.n_labels, found.length
            if found.parts:
                parts += [[part.start, part.stop] for part in found.parts]
                start, n_split = n_split + DERIVED, n_split + length
        starts.append(start)
        lengths.append(length)
        labels.append(n_labels)
    numbers = [np.array(column, np.int64) for column in (starts, lengths, labels)]
    index = ArrayIndex(numbers[0], numbers[1], numbers[2], problems)
    return FileIndex(len(index), {VALUE: index}, {"parts": parts})


class RecordScanner:
    """Finds the records of a file by their frames.

    Args:
        file: The file.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._headers = HeaderReader(file)

    def records(self, at: int) -> Iterator[Record]:
        """Yield the records from the frame at byte `at` on, each when the frame behind it proves where it ends.

        Raises:
            FormatError: The file cannot be read on.
        """
        file, read, size = self._file, self._headers.read, self._file.size
        pending: Record | None = None
        parts, begin, labels = list[range](), at, 0
        while at < size:
            head = read(at, _HEAD.size)
            if len(head) == _HEAD.size and not parts:
                magic, length, word = _HEAD.unpack(head)
                stop = at + FRAME.size + (length + 3) // 4 * 4
                if magic == MAGIC and length < 2**29 and stop <= size:  # a record in one frame, as most are
                    if pending is not None:
                        yield pending
                    pending = Record(at, stop, word if length >= IMAGE_HEADER.size else 0, length, ())
                    at = stop
                    continue
            problem = frame_problem(head[: FRAME.size], at, file, (2, 3) if parts else (0, 1))
            if pending is not None and (problem is None or self._was_frame(head, at)):
                yield pending
                pending = None
            if problem is not None:
                raise problem
            _, bits = FRAME.unpack_from(head)
            flag, length, data = bits >> 29, bits & (2**29 - 1), at + FRAME.size
            stop = data + (length + 3) // 4 * 4
            if not flag:
                n_labels = int.from_bytes(head[FRAME.size :], "little") if length >= IMAGE_HEADER.size else 0
                pending = Record(at, stop, n_labels, length, ())
            elif flag == 1:
                begin, labels = at, int.from_bytes(head[FRAME.size :], "little")
                parts = [range(data, data + length)]
            else:
                # the magic number is a word of the data, too
                parts += (range(at, at + _WORD.size), range(data, data + length))
            if flag == 3:
                n_bytes = sum(map(len, parts))
                pending = Record(begin, stop, labels if n_bytes >= IMAGE_HEADER.size else 0, n_bytes, tuple(parts))
                parts = []
            at = stop
        if parts:
            what = "the file ends in a record of several frames"
            raise TruncatedError(what, path=file.name, offset_bytes=begin)
        if pending is not None:
            yield pending

    def find(self, first: int) -> int | None:
        """Return the first place from `first` on where a record begins whose frame leads to another one, or `None`."""
        at = _padded(first)
        while at + FRAME.size <= self._file.size:
            n_bytes = min(_WINDOW, self._file.size - at) // _WORD.size * _WORD.size
            words = np.frombuffer(self._headers.read(at, n_bytes), "<u4")
            is_likely = (words[:-1] == MAGIC) & (words[1:] >> 29 <= 1)  # the first frame of a record
            for place in (at + _WORD.size * np.flatnonzero(is_likely)).tolist():
                head = self._file.pread(place, FRAME.size)
                if frame_problem(head, place, self._file, (0, 1)) is None and self._leads_to_frame(head, place):
                    return int(place)
            at += n_bytes - _WORD.size
        return None

    def _leads_to_frame(self, head: bytes, at: int) -> bool:
        """True if the length in the header at byte `at` leads to another frame, or to the end of the file."""
        stop = _stop(head, at)
        return stop == self._file.size or self._was_frame(self._file.pread(stop, FRAME.size), stop)

    def _was_frame(self, head: bytes, at: int) -> bool:
        """True if a header, which may be damaged, has its magic number, or a length that leads to one or to the end."""
        if head and _MAGIC.startswith(head[: _WORD.size]):
            return True
        stop = _stop(head, at) if len(head) >= FRAME.size else -1
        return stop == self._file.size or (stop > 0 and self._file.pread(stop, _WORD.size) == _MAGIC)


def _padded(size: int) -> int:
    return (size + 3) // 4 * 4


def _stop(head: bytes, at: int) -> int:
    """Return where the frame at byte `at` ends, by its length."""
    return at + FRAME.size + _padded(FRAME.unpack_from(head)[1] & (2**29 - 1))
