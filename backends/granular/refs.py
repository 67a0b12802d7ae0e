"""Parses `refs.bag` of generations 1 and 2: the records of each field that make a row.

A row is a msgpack list with an element for each field, in the order of the sorted names: the number of a record, or
for a sequence `[first, count]`, or `[]` for an empty one. All rows are parsed side by side, one element at a time.
The parser knows only lists and integers, and no length in the data decides an allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PAD = 16  # bytes read behind the last one: a code and 8 bytes, from one byte past the end


def _widths(codes: dict[int, int]) -> NDArray[np.int64]:
    table = np.full(256, -1, np.int64)
    for code, width in codes.items():
        table[code] = width
    return table


_UNSIGNED = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SIGNED = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}  # some packers use them for numbers >= 0, too
_INTEGERS = _widths(dict.fromkeys(range(0x80), 0) | _UNSIGNED | _SIGNED)
_LISTS = _widths(dict.fromkeys(range(0x90, 0xA0), 0) | {0xDC: 2, 0xDD: 4})


@dataclass(frozen=True, slots=True)
class Refs:
    """The records of each row.

    Attributes:
        first: int64[n] for each field, the first record.
        count: Number of a sequence's field to int64[n], the number of its records.
        wrong: bool[n], rows that do not parse; `first` and `count` are meaningless there.
    """

    first: Sequence[NDArray[np.int64]]
    count: Mapping[int, NDArray[np.int64]]
    wrong: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[Refs]) -> Refs:
        """Join parts of the same fields, at least one."""
        head = parts[0]
        first = [np.concatenate([part.first[number] for part in parts]) for number in range(len(head.first))]
        count = {number: np.concatenate([part.count[number] for part in parts]) for number in head.count}
        return cls(first, count, np.concatenate([part.wrong for part in parts]))

    def counts(self, number: int) -> NDArray[np.int64]:
        """Return int64[n], the number of a field's records in each row: 1 unless it is a sequence."""
        found = self.count.get(number)
        return np.broadcast_to(np.int64(1), self.wrong.shape) if found is None else found


def parse_refs(data: bytes, start: NDArray[np.int64], stop: NDArray[np.int64], sequences: Sequence[bool]) -> Refs:
    """Parse rows.

    Args:
        data: The bytes of the rows.
        start: int64[n], where in `data` each row begins.
        stop: int64[n], where it ends.
        sequences: True for each field that is a sequence; fields are sorted by name.
    """
    cursor = _RowCursor(data, start, stop)
    first: list[NDArray[np.int64]] = []
    count: dict[int, NDArray[np.int64]] = {}
    cursor.mark_wrong(cursor.list_size() != len(sequences))
    everywhere = np.ones(len(start), bool)
    for number, sequence in enumerate(sequences):
        if sequence:
            size = cursor.list_size()
            there = size == 2
            cursor.mark_wrong(~there & (size != 0))
            first.append(cursor.integer(there))
            count[number] = cursor.integer(there)
        else:
            first.append(cursor.integer(everywhere))
    cursor.mark_wrong(cursor.at != stop)
    return Refs(first, count, cursor.wrong)


class _RowCursor:
    """A position in each row, which reading moves."""

    def __init__(self, data: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> None:
        self._end = len(data)
        self._bytes = np.frombuffer(data + bytes(_PAD), np.uint8)
        self._windows = np.lib.stride_tricks.sliding_window_view(self._bytes, 8)
        self._stop = stop
        self.at = start.copy()
        self.wrong = (start < 0) | (stop > self._end) | (start >= stop)
        self.at[self.wrong] = 0

    def mark_wrong(self, rows: NDArray[np.bool_]) -> None:
        """Mark rows as wrong."""
        self.wrong |= rows

    def list_size(self) -> NDArray[np.int64]:
        """Return the size of the list at each position, and step behind its head."""
        code = self._bytes[self.at].astype(np.int64)
        value = self._number(_LISTS[code], np.ones(len(code), bool))
        return np.where(_LISTS[code] == 0, code & 0x0F, value)

    def integer(self, there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number at each position where one is expected, and step behind it; 0 elsewhere."""
        code = self._bytes[self.at].astype(np.int64)
        width = _INTEGERS[code]
        value = np.where(width == 0, code, self._number(width, there))
        negative = (code >= 0xD0) & (code <= 0xD3) & (value >> np.maximum(8 * width - 1, 0) & 1 == 1)
        self.mark_wrong(there & (negative | (value < 0)))
        return np.where(there, value, 0)

    def _number(self, width: NDArray[np.int64], there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the big-endian numbers of `width` bytes behind a code, and step behind them."""
        self.mark_wrong(there & (width < 0))
        words = np.ascontiguousarray(self._windows[self.at + 1]).view(">u8")[:, 0].astype(np.uint64)
        shift = np.where(width > 0, 64 - 8 * width, 63).astype(np.uint64)
        self.at = np.minimum(self.at + np.where(there & (width >= 0), 1 + width, 0), self._end)
        self.mark_wrong(there & (self.at > self._stop))
        return (words >> shift).astype(np.int64)
