"""The footer of a Parquet file: the facts about its row groups that `open` needs.

pyarrow has them, too, but it ends the process if a damaged footer gives a column another type than the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile

MAGIC = b"PAR1"
_TAIL = struct.Struct("<I4s")
_TAIL_BYTES = 2**16  # that the first request reads
_MAX_DEPTH = 16
_BOOLS = (1, 2)
_TRUE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 3, 7, 8, 9, 10, 12


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group.

    Attributes:
        n_records: Its records.
        n_bytes: The bytes of its columns, decompressed.
        full: The fields that no record lacks, as far as its statistics tell.
    """

    n_records: int
    n_bytes: int
    full: frozenset[str]


def read_footer(file: StoredFile) -> bytes:
    """Return the footer, a struct of Thrift's compact protocol.

    Raises:
        FormatError: It is damaged or encrypted.
    """
    tail = file.pread(max(0, file.size - _TAIL_BYTES), min(_TAIL_BYTES, file.size))
    length, magic = _TAIL.unpack(tail[-8:]) if len(tail) >= 12 else (0, b"")
    if magic != MAGIC:
        what, at = "not the end of a Parquet file", max(0, file.size - 4)
        raise FormatError(what, path=file.name, offset_bytes=at, expected=MAGIC, found=bytes(magic))
    if not 0 < length <= file.size - 12:
        what, most = "the footer is longer than the file", f"1 to {file.size - 12} bytes"
        raise FormatError(what, path=file.name, offset_bytes=file.size - 8, expected=most, found=length)
    if length + 8 <= len(tail):
        return bytes(tail[-8 - length : -8])
    return bytes(file.pread(file.size - 8 - length, length))


def row_groups(file: StoredFile, footer: bytes) -> list[RowGroup]:
    """Return the row groups that a footer lists.

    The source of the numbers of fields is `parquet.thrift` of Apache Parquet: FileMetaData, RowGroup, ColumnChunk,
    ColumnMetaData, Statistics.

    Raises:
        FormatError: The footer is damaged.
    """
    try:
        return [_row_group(group) for group in read_struct(footer, 0)[0][4]]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError("the footer is damaged", path=file.name, offset_bytes=file.size - 8 - len(footer)) from error


def _row_group(group: Mapping[int, Any]) -> RowGroup:
    columns = [column[3] for column in group[1]]
    full = frozenset(_name(column) for column in columns if column.get(12, {}).get(3) == 0)  # one full part is enough
    n, n_bytes = group[3], group[2]
    if not 0 <= n < 2**62 or not 0 <= n_bytes < 2**62:
        raise ValueError(f"a row group of {n} records and {n_bytes} bytes")
    return RowGroup(n, n_bytes, full)


def _name(column: Mapping[int, Any]) -> str:
    name: bytes = column[3][0]
    return name.decode()


def read_struct(data: bytes | memoryview, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct of Thrift's compact protocol at a place, by the numbers of its fields, and the place behind it.

    It is written for speed: ten thousand small files have a footer each.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("structs lie too deep")
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            last = number
            number, at = _zigzag(data, at)
            if number <= last:  # programs differ in which of two equal ones they read
                raise ValueError("fields are out of order")
        if _BYTE < kind < _DOUBLE and data[at] < 128:  # most values
            found[number], at = data[at] >> 1 ^ -(data[at] & 1), at + 1
        elif kind in _BOOLS:
            found[number] = kind == _TRUE
        else:
            found[number], at = _value(data, at, kind, depth)
    if number >= 2**15:  # programs take it for another one
        raise ValueError("the number of a field is too large")
    return found, at + 1


def _value(data: bytes | memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if _BYTE < kind < _DOUBLE:
        return _zigzag(data, at)
    if kind in (_BINARY, _DOUBLE):
        n, at = _varint(data, at) if kind == _BINARY else (8, at)
        if n > len(data) - at:
            raise IndexError("the footer ends")
        return data[at : at + n], at + n
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (*_BOOLS, _BYTE):  # as elements of lists
        return data[at], at + 1
    raise ValueError(f"unknown type {kind}")


def _list(data: bytes | memoryview, at: int, depth: int) -> tuple[list[Any], int]:
    kind, n = data[at] & 15, data[at] >> 4
    n, at = _varint(data, at + 1) if n == 15 else (n, at + 1)
    if n > len(data) - at or depth > _MAX_DEPTH:  # each element has a byte at least
        raise ValueError("a list is longer than the footer")
    found = []
    for _ in range(n):
        value, at = _value(data, at, kind, depth)
        found.append(value)
    return found, at


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a number is too long")
    return value | byte << shift, at + 1


def _zigzag(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
