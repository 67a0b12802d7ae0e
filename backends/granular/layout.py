"""The tables of limits of a bag, in all generations, without I/O: FORMATS, Granular.

A limit is the end of a record.

| generation | table | entries |
|---|---|---|
| 1 | at the end of the `.bag` | N+1: 0, then the end of each record |
| 2 | at the end of the `.bag` | N: the end of each record, none of them 0 |
| 3 | the `.idx` file | N: the end of each record |

In generations 1 and 2 the last 8 bytes of the file are the end of the data, which is where the table begins. If the end
of such a file is lost, an earlier end leads to a table that begins too early, in the records: all its ends belong to
other records. Therefore one implausible end makes the whole table unreadable. In generation 3 it makes two records
unreadable, and so it does if all records have one size that is known: then each end is right or wrong by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, TruncatedError

ENTRY_BYTES = 8  # uint64, little-endian


@dataclass(frozen=True, slots=True)
class BagLayout:
    """The layout of a bag, from its sizes and a few of its bytes.

    Attributes:
        generation: 1, 2 or 3.
        n_records: The number of ends in the table.
        data_bytes: Bytes that records may occupy: up to the table, or the size of the `.bag`.
        table_offset: The offset in its file of the end of record 0.
        table_path: The file with the table, for messages.
        torn_bytes: Bytes of an incomplete last entry, left by a torn write; generation 3 alone can have it.
    """

    generation: int
    n_records: int
    data_bytes: int
    table_offset: int
    table_path: str
    torn_bytes: int = 0

    @property
    def table_bytes(self) -> int:
        """Bytes of the ends."""
        return ENTRY_BYTES * self.n_records

    def torn_entry(self) -> TruncatedError | None:
        """Return the error of an incomplete last entry: the record whose end it is cannot be read."""
        if not self.torn_bytes:
            return None
        return TruncatedError(
            "the index ends within an entry",
            path=self.table_path,
            offset_bytes=self.table_bytes,
            expected=f"{ENTRY_BYTES} bytes",
            found=f"{self.torn_bytes} bytes",
        )


@dataclass(frozen=True, slots=True, eq=False)
class BagLimits:
    """The ends of all records of a bag, and which of them are plausible.

    Attributes:
        layout: The layout of the bag.
        edges: int64[n + 1], 0 and the ends as stored, clipped to the range of int64.
        believed: bool[n], False for ends outside the data, out of order with the others, or not at the place that
            records of one size give them.
        record_bytes: The size of every record, if it is known.
        all_believed: True if all of `believed` are True.
    """

    layout: BagLayout
    edges: NDArray[np.int64]
    believed: NDArray[np.bool_]
    record_bytes: int | None = None
    all_believed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "all_believed", bool(self.believed.all()))

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def ends(self) -> NDArray[np.int64]:
        """int64[n], where each record ends."""
        return self.edges[1:]

    def extents(self, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return (offset, length, wrong) of records in `[0, n)`; wrong ones have offset and length 0."""
        start = self.edges[records]
        length = self.ends[records] - start
        if self.all_believed:
            return start, length, np.zeros(len(records), bool)
        wrong = ~self.believed[records] | ((records > 0) & ~self.believed[np.maximum(records - 1, 0)])
        return np.where(wrong, 0, start), np.where(wrong, 0, length), wrong

    def problem(self, record: int) -> FormatError:
        """Return the error of a record that `extents` calls wrong."""
        entry = record if not self.believed[record] else record - 1
        found, most = int(self.ends[entry]), self.layout.data_bytes
        outside = found > most
        what = "a record reaches outside the bag" if outside else "the ends of records are out of order"
        least = int(self.ends[:entry][self.believed[:entry]].max(initial=0))
        expected = f"an end in [{least}, {most}]"
        if self.record_bytes is not None and not outside:
            what, expected = "a record has another size than its type", f"an end at {self.record_bytes * (entry + 1)}"
        return (TruncatedError if outside else FormatError)(
            what,
            path=self.layout.table_path,
            offset_bytes=self.layout.table_offset + ENTRY_BYTES * entry,
            expected=expected,
            found=found,
        )


def indexed_layout(bag_bytes: int, idx_bytes: int, idx_path: str) -> BagLayout:
    """Return the layout of generation 3."""
    return BagLayout(3, idx_bytes // ENTRY_BYTES, bag_bytes, 0, idx_path, idx_bytes % ENTRY_BYTES)


def table_layout(size: int, last: bytes, first: bytes, path: str) -> BagLayout:
    """Return the layout of a bag with its table at the end.

    Args:
        size: The file's bytes.
        last: Its last 8 bytes.
        first: The 8 bytes at the offset in `last`, where the table begins; fewer if they are outside the file.
        path: The path in messages.

    Raises:
        FormatError: There cannot be a table.
    """
    if size == 0:
        return BagLayout(2, 0, 0, 0, path)
    start = int.from_bytes(last, "little")
    if size < ENTRY_BYTES or start > size - ENTRY_BYTES or (size - start) % ENTRY_BYTES:
        raise FormatError(
            "the bag has no table of limits at its end",
            path=path,
            offset_bytes=max(0, size - ENTRY_BYTES),
            expected=f"the start of a table of whole entries before byte {size}",
            found=start if size >= ENTRY_BYTES else f"{size} bytes",
            remedy="A bag of generation 3 needs its .idx file beside it",
        )
    entries = (size - start) // ENTRY_BYTES
    if int.from_bytes(first, "little") == 0:
        return BagLayout(1, entries - 1, start, start + ENTRY_BYTES, path)
    return BagLayout(2, entries, start, start, path)


def parse_limits(table: bytes, layout: BagLayout, record_bytes: int | None = None) -> BagLimits:
    """Return the limits in a table.

    Args:
        table: `layout.table_bytes` bytes from `layout.table_offset` on.
        layout: The layout of the bag.
        record_bytes: The size of every record, if the type of the field has one.

    Raises:
        FormatError: An entry is implausible, and in this generation the whole table is then unreadable.
    """
    stored = np.frombuffer(table, "<u8", layout.n_records)
    edges = np.zeros(layout.n_records + 1, np.int64)
    edges[1:] = np.minimum(stored, np.uint64(2**63 - 1))
    if record_bytes is not None:
        believed = _of_one_size(edges[1:], record_bytes, layout.data_bytes)
    elif layout.generation == 3:
        believed = _believed(edges[1:], layout.data_bytes)
    else:
        _check_table(edges, layout)
        believed = np.ones(layout.n_records, bool)
    return BagLimits(layout, edges, believed, record_bytes)


def _check_table(edges: NDArray[np.int64], layout: BagLayout) -> None:
    """Refuse a table at the end of a bag if any of its entries is implausible."""
    least = 0 if layout.generation == 1 else 1  # bytes of a record
    wrong = (np.diff(edges) < least) | (edges[1:] > layout.data_bytes)
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise FormatError(
            "the table of limits is damaged, or the file lost its end",
            path=layout.table_path,
            offset_bytes=layout.table_offset + ENTRY_BYTES * entry,
            expected=f"an end in [{edges[entry] + least}, {layout.data_bytes}]",
            found=int(edges[entry + 1]),
        )


def _of_one_size(ends: NDArray[np.int64], record_bytes: int, data_bytes: int) -> NDArray[np.bool_]:
    """Return bool[n]: ends of records that all have this size."""
    fits = min(len(ends), data_bytes // record_bytes) if record_bytes else len(ends)
    believed = np.zeros(len(ends), bool)
    believed[:fits] = ends[:fits] == record_bytes * np.arange(1, fits + 1)
    return believed


def _believed(ends: NDArray[np.int64], data_bytes: int) -> NDArray[np.bool_]:
    """Return bool[n]: ends that fit the data and each other.

    If ends are out of order, either some are too low or some are too high. The smaller group is the wrong one, and of
    two swapped ends the later one.
    """
    inside = ends <= data_bytes
    below = np.maximum.accumulate(np.where(inside, ends, 0))
    above = np.minimum.accumulate(np.where(inside, ends, data_bytes)[::-1])[::-1]
    low, high = inside & (ends < below), inside & (ends > above)
    if not low.any():
        return inside
    # No end before a border is above an end behind it: the ends between two borders are judged by themselves.
    borders = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(below[:-1] <= above[1:]) + 1])
    fewer_low = np.add.reduceat(low, borders, dtype=np.int64) <= np.add.reduceat(high, borders, dtype=np.int64)
    blame_low = np.repeat(fewer_low, np.diff(np.append(borders, len(ends))))
    wrong = np.where(blame_low, low, high)
    believed: NDArray[np.bool_] = inside & ~wrong
    return believed
