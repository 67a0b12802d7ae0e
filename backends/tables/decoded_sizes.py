"""Sizes in memory of what is compressed in tables, before it is decoded: kilobytes can stand for gigabytes."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces import StoredFile

_TRUSTED = "If you trust the data, pass {max_record_bytes}"
_CONTINUES = b"\xff\xff\xff\xff"  # before the length of a message, but not in files of 2019 and earlier
_DICTIONARY, _BATCH = b"\2", b"\3"  # types of messages of Arrow IPC
_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("", "<i4"), ("body", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("length", "<i8")])


def check_decoded_size(file: StoredFile, part: str, n_bytes: int, max_record_bytes: int) -> None:
    """Raise `FormatError` if a part of a file, such as `"row group 3"`, would have too many bytes in memory."""
    most = file.most_decoded_bytes(max_record_bytes)
    if n_bytes > most:
        what, expected = (
            f"{part} is longer than a share of max_record_bytes",
            f"<= {most} bytes in a file of {file.size}",
        )
        needed = Remedy(_TRUSTED, max_record_bytes=8 * n_bytes)
        raise FormatError(what, path=file.name, expected=expected, found=f"{n_bytes} bytes", remedy=needed)


def bytes_of_texts(columns: Iterable[Any]) -> int:
    """Return the bytes that the texts of columns have; those that are no dictionaries of texts have 0."""
    types, compute, total = pyarrow().types, importlib.import_module("pyarrow.compute"), 0
    texts = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    for chunk in itertools.chain.from_iterable(getattr(column, "chunks", [column]) for column in columns):
        if types.is_dictionary(chunk.type) and any(is_one(chunk.type.value_type) for is_one in texts):
            lengths = compute.binary_length(chunk.dictionary).cast("int64")
            total += compute.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def message_places(file: StoredFile) -> list[int]:
    """Return the offsets of the dictionaries, and of the record batches, that the footer of an Arrow IPC file lists."""
    length = int.from_bytes(_bytes_at(file, file.size - 10, 4), "little")
    footer = _bytes_at(file, file.size - 10 - length, length)
    dictionaries, batches = (_structs(footer, _target(footer, 0), number, _BLOCK) for number in (2, 3))
    return [*dictionaries["offset"].tolist(), *batches["offset"].tolist()]


def message_bytes(file: StoredFile, place: int) -> int:
    """Return the bytes in memory of the compressed buffers of a dictionary or batch of Arrow IPC.

    The metadata of a message are a flatbuffer, by `Message.fbs` of Arrow. Each compressed buffer begins with its size.

    Args:
        file: The file.
        place: The offset of the message.
    """
    start = _bytes_at(file, place, 8)
    begin = place + 4 + 4 * start.startswith(_CONTINUES)
    length = int.from_bytes(start[begin - place - 4 :][:4], "little")
    head = _bytes_at(file, begin, length)
    message = _target(head, 0)
    kind = head[_field(head, message, 1) :][:1]
    if kind not in (_DICTIONARY, _BATCH):
        return 0
    batch = _target(head, _field(head, message, 2))
    if kind == _DICTIONARY:
        batch = _target(head, _field(head, batch, 1))
    if not _field(head, batch, 3):  # it is not compressed
        return 0
    buffers = _structs(head, batch, 2, _BUFFER)
    places = begin + length + buffers["offset"][buffers["length"] >= 8]
    sizes = file.pread_many([(one, 8) for one in places[(places >= 0) & (places <= file.size - 8)].tolist()])
    return sum(max(0, int.from_bytes(size, "little", signed=True)) for size in sizes)  # -1: not compressed


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
