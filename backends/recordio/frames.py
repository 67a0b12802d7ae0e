"""Scans the frames of a file: a uint32 magic number, 3 bits of a flag and 29 bits of a length, the data, padding to 4.

Data that contain the magic number at a multiple of 4 are written as several frames, without that word: the flag is 0
for a whole record, else 1 for its first part, 2 for those in the middle, 3 for the last (dmlc-core, recordio.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import numpy as np

from dataformats.errors import FormatError, TruncatedError
from dataformats.indexing.fields_reader import DERIVED
from dataformats.indexing.file_index import ArrayIndex, FileIndex
from dataformats.interfaces import StoredFile
from dataformats.spec import VALUE
from dataformats.storage.header_reader import HeaderReader

MAGIC = 0xCED7230A
FRAME = Struct("<II")  # magic, flag and length
IMAGE_HEADER = Struct("<IfQQ")  # number of labels if they are several, the label if it is one, id, id2
_WORD = Struct("<I")


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
        what, remedy = "no frame begins here", "The next record cannot be found"
        return FormatError(what, path=file.name, offset_bytes=at, expected=hex(MAGIC), found=hex(magic), remedy=remedy)
    if word >> 29 not in expected_flags:
        flags = " or ".join(map(str, expected_flags))
        return FormatError("wrong flag of a frame", path=file.name, offset_bytes=at, expected=flags, found=word >> 29)
    left, length = file.size - at - FRAME.size, word & (2**29 - 1)
    if length > left:
        what, expected = "a record reaches past the end of the file", f"at most {left} bytes"
        return TruncatedError(what, path=file.name, offset_bytes=at, expected=expected, found=f"{length} bytes")
    return None


def scan(file: StoredFile) -> FileIndex:
    """Return the records of a file, from one pass over its frames.

    The `stored` number of a record is the first uint32 of its data, 0 if they are too short for labels. A record in
    several frames lies in the file that the metadata describe: ranges of this file, back to back. If the rest of the
    file cannot be read, it is one more record.
    """
    starts, lengths, labels = list[int](), list[int](), list[int]()
    parts: list[range] = []
    n_parts = n_split = n_labels = 0  # parts, and their bytes, of the records so far; the labels of the last one
    problems: dict[int, FormatError] = {}
    try:
        for at, flag, length, word in _frames(file):
            begin = at + FRAME.size
            start = begin
            if flag in (0, 1):
                n_labels = word
            else:
                parts.append(range(at, at + 4))  # the magic number, which is a word of the data, too
            if flag:
                parts.append(range(begin, begin + length))
            if flag == 3:
                start, length = n_split + DERIVED, sum(map(len, parts[n_parts:]))
                n_parts, n_split = len(parts), n_split + length
            if flag in (0, 3):
                starts.append(start)
                lengths.append(length)
                labels.append(n_labels if length >= IMAGE_HEADER.size else 0)
    except FormatError as error:
        problems[len(starts)] = error
        for column in (starts, lengths, labels):
            column.append(0)
    numbers = [np.array(column, np.int64) for column in (starts, lengths, labels)]
    index = ArrayIndex(numbers[0], numbers[1], numbers[2], problems)
    return FileIndex(len(index), {VALUE: index}, {"parts": [[part.start, part.stop] for part in parts[:n_parts]]})


def _frames(file: StoredFile) -> Iterator[tuple[int, int, int, int]]:
    """Yield the place of each frame, its flag, its length and the first uint32 of its data.

    Raises:
        FormatError: The file cannot be read on.
    """
    headers, at, begin, in_record = HeaderReader(file), 0, 0, False
    while at < file.size:
        head = headers.read(at, FRAME.size + _WORD.size)
        problem = frame_problem(head[: FRAME.size], at, file, (2, 3) if in_record else (0, 1))
        if problem is not None:
            raise problem
        bits = FRAME.unpack_from(head)[1]
        flag, length = bits >> 29, bits & (2**29 - 1)
        begin = begin if in_record else at
        yield at, flag, length, int.from_bytes(head[FRAME.size :], "little")
        in_record = flag in (1, 2)
        at += FRAME.size + (length + 3) // 4 * 4
    if in_record:
        raise TruncatedError("the file ends in a record of several frames", path=file.name, offset_bytes=begin)
