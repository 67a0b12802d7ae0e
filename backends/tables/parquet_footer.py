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
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12


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
        return [_row_group(group) for group in _Thrift(footer).struct()[4]]
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


class _Thrift:
    """Reads Thrift's compact protocol. Structs are dicts by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the next struct."""
        if depth > _MAX_DEPTH:
            raise ValueError("structs lie too deep")
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # as elements of lists
            return self._byte()
        if kind < _DOUBLE:
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        n = head >> 4 if head >> 4 != 15 else self._varint()
        if n > len(self._data) - self._at or depth > _MAX_DEPTH:  # each element has a byte at least
            raise ValueError("a list is longer than the footer")
        return [self._value(head & 15, depth) for _ in range(n)]

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _bytes(self, n: int) -> bytes:
        found = self._data[self._at : self._at + n]
        if len(found) < n:
            raise IndexError("the footer ends")
        self._at += n
        return found

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 127:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
