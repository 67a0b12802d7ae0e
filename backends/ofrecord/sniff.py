"""Recognizes an OFRecord file by its first records.

There is no magic number and no checksum. The evidence is that lengths lead from one frame to the next inside the file,
and that the data are maps of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

from dataformats.backends.ofrecord.layout import HEADER
from dataformats.interfaces import RecordCodec, SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.registry import codecs

_FRAMES = 16
_DATA_BYTES = 64 * 1024  # read of each record
_ENTRY = _KEY = 0x0A  # tag of field 1, length-delimited
_VALUE = 0x12  # tag of field 2
_VARINT_BYTES = 5  # enough for any length below 2^35


def sniff_frames(file: StoredFile, *, has_name: bool) -> SniffResult:
    """Recognize a non-empty file by its first records.

    Args:
        file: The file.
        has_name: True if its name is one of an OFRecord file.
    """
    evidence = _read_frames(file)
    if evidence.n_messages and not evidence.problem:
        return SniffResult("yes")
    # The name decides if no other format recognizes the content: the first length may be damaged, and the records
    # may have another payload.
    is_damaged = evidence.n_messages or evidence.is_cut_message or has_name
    return SniffResult("damaged" if is_damaged else "no", evidence.problem or "its first records are empty")


@dataclass(slots=True)
class _SniffedFrames:
    """The first frames of a file.

    Attributes:
        n_messages: Frames that hold an OFRecord that is not empty.
        is_cut_message: True if the last one reaches past the end of the file and begins like an OFRecord.
        problem: The first deviation from the format, or `""`.
    """

    n_messages: int = 0
    is_cut_message: bool = False
    problem: str = ""


def _read_frames(file: StoredFile) -> _SniffedFrames:
    evidence, at = _SniffedFrames(), 0
    for _ in range(_FRAMES):
        head = file.pread(at, HEADER.size + _DATA_BYTES)
        if not head:
            break
        if len(head) < HEADER.size:
            evidence.problem = evidence.problem or f"the {len(head)} bytes from byte {at} on are too few for a length"
            break
        (length,) = HEADER.unpack_from(head)
        data = head[HEADER.size :]
        if not 0 <= length <= file.size - at - HEADER.size:
            evidence.is_cut_message = begins_as_message(data)
            problem = f"byte {at} starts a record of {length} bytes, which does not fit into {file.size} bytes"
            evidence.problem = evidence.problem or problem
            break
        if length:
            is_message = _is_message(data[:length]) if length <= _DATA_BYTES else begins_as_message(data)
            evidence.n_messages += is_message
            if not is_message:
                problem = f"the {length} bytes from byte {at + HEADER.size} on are not an OFRecord"
                evidence.problem = evidence.problem or problem
        at += HEADER.size + length
    return evidence


def _is_message(data: bytes) -> bool:
    return cast(RecordCodec, codecs.get("ofrecord")).matches(data)


def begins_as_message(data: bytes) -> bool:
    """True for a map entry as all writers make it: a key and a value that fill it. The value may be cut."""
    entry = _delimited(data, 0, _ENTRY)
    key = _delimited(data, entry.start, _KEY) if entry else None
    value = _delimited(data, key.stop, _VALUE) if key else None
    if not (entry and key and value) or value.stop != entry.stop:
        return False
    try:
        data[key.start : key.stop].decode()
    except UnicodeDecodeError:
        return False
    return True


class _WireField(NamedTuple):
    start: int
    stop: int


def _delimited(data: bytes, offset: int, tag: int) -> _WireField | None:
    """Return the content of the length-delimited field whose tag is at `offset`, or `None`."""
    if data[offset : offset + 1] != bytes([tag]):
        return None
    length = 0
    for number, byte in enumerate(data[offset + 1 : offset + 1 + _VARINT_BYTES]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            start = offset + 2 + number
            return _WireField(start, start + length)
    return None
