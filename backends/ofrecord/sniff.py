"""What a file's first bytes say: whether OFRecords are in it.

There is no magic number and no checksum. What tells is that lengths lead from one frame to the next inside the file,
and that the data are maps of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from dataformats.backends.ofrecord.layout import HEADER
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.registry import codecs

__all__ = ["judge"]

_FRAMES = 16
_DATA = 64 * 1024  # bytes of a record that are looked at
_ENTRY = _KEY = 0x0A  # tag of field 1, length-delimited
_VALUE = 0x12  # tag of field 2
_VARINT_BYTES = 5  # of any length below 2^35


def judge(file: StoredFile, claimed: bool) -> SniffResult:
    """Judge a non-empty file by its first records.

    Args:
        file: The file.
        claimed: Its name says that it holds OFRecords.
    """
    seen = _look(file)
    if seen.n_messages and not seen.wrong:
        return SniffResult("yes")
    # A name is trusted where no other format knows the content: the first length may be what is damaged, and the
    # records may be of another payload.
    fits = seen.n_messages or seen.is_cut_message or claimed
    return SniffResult("damaged" if fits else "no", seen.wrong or "its first records are empty")


@dataclass(slots=True)
class _Seen:
    """What the first frames of a file are.

    Attributes:
        n_messages: How many hold an OFRecord that is not empty.
        is_cut_message: The last one reaches past the end of the file and begins like an OFRecord.
        wrong: The first thing that is not as it should be, or `""`.
    """

    n_messages: int = 0
    is_cut_message: bool = False
    wrong: str = ""


def _look(file: StoredFile) -> _Seen:
    seen, at = _Seen(), 0
    for _ in range(_FRAMES):
        head = file.pread(at, HEADER.size + _DATA)
        if not head:
            break
        if len(head) < HEADER.size:
            seen.wrong = seen.wrong or f"the {len(head)} bytes from byte {at} on are too few for a length"
            break
        (length,) = HEADER.unpack_from(head)
        data = head[HEADER.size :]
        if not 0 <= length <= file.size - at - HEADER.size:
            seen.is_cut_message = _begins_as_message(data)
            seen.wrong = seen.wrong or f"no record of {length} bytes, as byte {at} says, fits into {file.size} bytes"
            break
        if length:
            is_message = _is_message(data[:length]) if length <= _DATA else _begins_as_message(data)
            seen.n_messages += is_message
            if not is_message:
                seen.wrong = seen.wrong or f"the {length} bytes from byte {at + HEADER.size} on are no OFRecord"
        at += HEADER.size + length
    return seen


class _Judge(Protocol):
    def matches(self, blob: bytes) -> bool: ...


def _is_message(data: bytes) -> bool:
    return cast(_Judge, codecs.get("ofrecord")).matches(data)


def _begins_as_message(data: bytes) -> bool:
    """Return True for a map entry as every writer has it, a key and a value that fill it; the value may be cut."""
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


class _Field(NamedTuple):
    start: int
    stop: int


def _delimited(data: bytes, at: int, tag: int) -> _Field | None:
    """Return where the content of a length-delimited field lies whose tag stands at `at`."""
    if data[at : at + 1] != bytes([tag]):
        return None
    length = 0
    for number, byte in enumerate(data[at + 1 : at + 1 + _VARINT_BYTES]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            start = at + 2 + number
            return _Field(start, start + length)
    return None
