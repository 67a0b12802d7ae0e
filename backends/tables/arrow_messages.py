"""The headers of messages of Arrow IPC: flatbuffers, by `Message.fbs` and `File.fbs` of Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile

MAGIC = b"ARROW1"
CONTINUES = b"\xff\xff\xff\xff"
"""The bytes before the length of a message, but not in files of 2019 and earlier."""

_START_BYTES = 2**12  # more than most headers have
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # types of messages
_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("", "<i4"), ("body", "<i8")])
_NODE = np.dtype([("length", "<i8"), ("nulls", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("length", "<i8")])


class Message(NamedTuple):
    """A dictionary or a record batch, by its header.

    Attributes:
        place: The offset of the message.
        end: The offset of the next one in a stream.
        is_batch: True for a record batch.
        n_records: The records of a batch.
        nulls: The number of nulls of each array in a batch: columns, and depth first the arrays within them.
        n_bytes: The bytes in memory.
    """

    place: int
    end: int
    is_batch: bool = False
    n_records: int = 0
    nulls: NDArray[np.int64] = np.zeros(0, np.int64)
    n_bytes: int = 0


def is_file(file: StoredFile) -> bool:
    """True for a file with a footer, False for a stream."""
    return file.pread(0, len(MAGIC)) == MAGIC


def messages_of(file: StoredFile) -> Iterator[Message]:
    """Yield the dictionaries and the record batches of a file, in the order of its footer or of the stream.

    Raises:
        FormatError: A message ends behind the end of the file.
        ValueError: A header is damaged.
    """
    if is_file(file):
        length = int.from_bytes(_bytes_at(file, file.size - 10, 4), "little")
        footer = _bytes_at(file, file.size - 10 - length, length)
        n_bytes = 0
        for number in (2, 3):
            for place in _structs(footer, _target(footer, 0), number, _BLOCK)["offset"].tolist():
                message = _message_at(file, place)
                n_bytes += 0 if message is None else message.end - place
                if message is None or n_bytes > file.size:
                    raise ValueError(f"no message of its own at byte {place}")
                yield message
        return
    place = 0
    while (found := _message_at(file, place)) is not None:
        yield found
        place = found.end


def n_arrays(kind: Any) -> int:
    """Return the number of arrays in an array of an Arrow type: itself, and depth first those within it."""
    if isinstance(kind, pyarrow().BaseExtensionType):
        return n_arrays(kind.storage_type)
    return 1 + sum(n_arrays(kind.field(place).type) for place in range(kind.num_fields))


def _message_at(file: StoredFile, place: int) -> Message | None:
    """Return the message at an offset; `None` at the end of a stream."""
    start = _bytes_at(file, place, _START_BYTES)
    skipped = 4 + 4 * start.startswith(CONTINUES)
    begin, length = place + skipped, int.from_bytes(start[skipped - 4 : skipped], "little")
    if not length:
        if start and place + len(start) < begin:
            raise ValueError(f"the file ends within the length of a message at byte {place}")
        return None
    head = start[skipped : skipped + length] if skipped + length <= len(start) else _bytes_at(file, begin, length)
    table = _target(head, 0)
    body = max(0, _number(head, _field(head, table, 3), 8))
    end = begin + length + body
    if end > file.size:
        what = "a message ends behind the end of the file"
        raise FormatError(what, path=file.name, offset_bytes=place, expected=f"{end} bytes", found=f"{file.size} bytes")
    kind = _number(head, _field(head, table, 1), 1)
    if kind == _SCHEMA and not place:
        return Message(place, end)
    if kind not in (_DICTIONARY, _BATCH):
        raise ValueError(f"a message of type {kind} at byte {place}")
    batch = _target(head, _field(head, table, 2))
    if kind == _DICTIONARY:
        batch = _target(head, _field(head, batch, 1))
    n_records, nulls = _number(head, _field(head, batch, 0), 8), _structs(head, batch, 1, _NODE)["nulls"]
    if n_records < 0:
        raise ValueError(f"a batch of {n_records} records")
    if _field(head, batch, 3):  # each compressed buffer begins with its size, or with -1 if it is not compressed
        buffers = _structs(head, batch, 2, _BUFFER)
        places = begin + length + buffers["offset"][buffers["length"] >= 8]
        sizes = file.pread_many([(one, 8) for one in places[(places >= 0) & (places <= file.size - 8)].tolist()])
        body = sum(max(0, int.from_bytes(size, "little", signed=True)) for size in sizes)
    return Message(place, end, kind == _BATCH, n_records, nulls, body)


def _bytes_at(file: StoredFile, place: int, length: int) -> bytes:
    """Return the bytes at a place that a file states; what lies outside is left to pyarrow, which reports it."""
    return file.pread(place, min(length, file.size - place)) if 0 <= place < file.size else b""


def _structs(data: bytes, table: int, number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the vector of structs in a field of a table in a flatbuffer."""
    field = _field(data, table, number)
    if not field:
        return np.zeros(0, dtype)
    vector = _target(data, field)
    return np.frombuffer(data, dtype, int.from_bytes(data[vector : vector + 4], "little"), vector + 4)


def _target(data: bytes, place: int) -> int:
    """Return the place to which an offset of a flatbuffer leads."""
    return place + int.from_bytes(data[place : place + 4], "little")


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table in a flatbuffer; 0 if the table lacks it."""
    fields = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    size = int.from_bytes(data[fields : fields + 2], "little")
    at = fields + 4 + 2 * number
    offset = int.from_bytes(data[at : at + 2], "little") if at + 2 <= fields + size else 0
    return table + offset if offset else 0


def _number(data: bytes, place: int, size: int) -> int:
    """Return the integer at a place in a flatbuffer; 0 if the place is 0, as the table lacks it."""
    return int.from_bytes(data[place : place + size], "little", signed=True) if place else 0
