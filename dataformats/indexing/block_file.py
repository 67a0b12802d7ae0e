"""Columns of numbers as bytes, in blocks that can be read one by one, each with a checksum.

A block holds `ROWS` rows (the last block: the rest): the sum of the first column over all rows before it (int64), the
rows of each column, and the CRC32 of these bytes, combined with a seal that differs for another set of columns. A
column with one number in all rows is stored beside the blocks. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import crc32, crc32_extents

ROWS = 64
"""Rows of a block, as the kernels know: a lookup reads some 400 bytes, 3 % for the sum and the checksum."""

DTYPES = ("|u1", "<u2", "<u4", "<i8")
_AT_ONCE = 1024  # blocks packed together

NumberArray = NDArray[Any]
Octets = NDArray[np.uint8]


class BrokenBlockError(ValueError):
    """A block is damaged, missing, or of another index."""


@dataclass(frozen=True, slots=True)
class BlockColumn:
    """How a column is stored.

    Attributes:
        name: Its name.
        dtype: Its dtype in the blocks, as NumPy writes it.
        constant: The number of every row, which then is in no block; or `None`.
    """

    name: str
    dtype: str
    constant: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"expected the name of a column, found {self.name!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"expected a dtype of {', '.join(DTYPES)}, found {self.dtype!r}")
        if self.constant is not None:
            np.dtype(self.dtype).type(self.constant)  # OverflowError if it does not fit

    @property
    def width(self) -> int:
        """Bytes of a row in a block."""
        return 0 if self.constant is not None else int(self.dtype[-1])


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Where the rows of some columns lie.

    Attributes:
        n: The number of rows.
        columns: The columns, at least one.
        width: Bytes of a row in all columns.
    """

    n: int
    columns: tuple[BlockColumn, ...]
    width: int = field(init=False)

    def __post_init__(self) -> None:
        if self.n < 0 or not self.columns:
            raise ValueError(f"expected rows >= 0 and columns >= 1, found {self.n} and {len(self.columns)}")
        object.__setattr__(self, "width", sum(column.width for column in self.columns))

    def place(self, block: int) -> int:
        """Return the offset of a block."""
        return block * (ROWS * self.width + 12) if self.width else 0

    @property
    def n_bytes(self) -> int:
        """Bytes of all blocks."""
        n_blocks = -(-self.n // ROWS)
        return n_blocks * 12 + self.n * self.width if self.width else 0


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Consecutive rows.

    Attributes:
        columns: Name to (n,) of the column's dtype.
        before: The sum of the first column over all rows before these; 0 if there are no rows.
    """

    columns: Mapping[str, NumberArray]
    before: int


def layout_of(columns: Mapping[str, NumberArray]) -> BlockLayout:
    """Return the smallest layout for these columns of non-negative integers, all of the same length."""
    first = next(iter(columns.values()))
    return BlockLayout(len(first), tuple(_narrowed(name, array) for name, array in columns.items()))


def _narrowed(name: str, array: NumberArray) -> BlockColumn:
    if not len(array):
        return BlockColumn(name, "|u1", 0)
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= 2**63:
        raise ValueError(f"column {name!r} has numbers outside [0, 2**63): found {low} to {high}")
    dtype = next(dtype for dtype in DTYPES if high <= np.iinfo(dtype).max)
    return BlockColumn(name, dtype, low if low == high else None)


def digest(columns: Mapping[str, NumberArray]) -> str:
    """Return a digest of these numbers; their storage and dtype do not matter."""
    state = hashlib.blake2b(digest_size=16)
    for name, array in columns.items():
        state.update(f"{name} {len(array)} ".encode())
        for first in range(0, len(array), ROWS * _AT_ONCE):
            state.update(array[first : first + ROWS * _AT_ONCE].astype("<i8").tobytes())
    return state.hexdigest()


def pack(layout: BlockLayout, columns: Mapping[str, NumberArray], seal: int) -> Iterator[bytes]:
    """Yield the blocks of these columns, some at a time."""
    summed = next(iter(columns.values()))
    before = 0
    for first in range(0, layout.n if layout.width else 0, ROWS * _AT_ONCE):
        stop = min(first + ROWS * _AT_ONCE, layout.n)
        full = (stop - first) // ROWS * ROWS
        for begin, end in ((first, first + full), (first + full, stop)):
            if begin == end:
                continue
            parts = {name: array[begin:end] for name, array in columns.items()}
            yield _blocks(layout, parts, before, seal).tobytes()
            before += int(summed[begin:end].sum(dtype=np.int64))


def _blocks(layout: BlockLayout, columns: Mapping[str, NumberArray], before: int, seal: int) -> Octets:
    """Return blocks of equal size, uint8[n_blocks, size]: full ones, or a single shorter one."""
    summed = next(iter(columns.values()))
    rows = min(len(summed), ROWS)
    n_blocks = len(summed) // rows
    blocks = np.empty((n_blocks, rows * layout.width + 12), np.uint8)
    sums = np.cumsum(summed.reshape(n_blocks, rows).sum(axis=1, dtype=np.int64))
    blocks[:, :8] = np.concatenate([[before], before + sums[:-1]]).astype("<i8").view(np.uint8).reshape(-1, 8)
    for column, part in _kept_in(layout, rows):
        blocks[:, part] = columns[column.name].astype(column.dtype).view(np.uint8).reshape(n_blocks, -1)
    blocks[:, -4:] = _sealed(blocks, seal).view(np.uint8).reshape(n_blocks, 4)
    return blocks


def _kept_in(layout: BlockLayout, rows: int) -> Iterator[tuple[BlockColumn, slice]]:
    """Yield each column that blocks hold, and its place in a block of `rows` rows."""
    at = 8
    for column in layout.columns:
        if column.width:
            yield column, slice(at, at + rows * column.width)
            at += rows * column.width


def _sealed(blocks: Octets, seal: int) -> NumberArray:
    """Return `<u4[n_blocks]`, the checksums to store at the end of these blocks."""
    n_blocks, size = blocks.shape
    starts = np.arange(n_blocks, dtype=np.int64) * size
    computed = crc32_extents(blocks.reshape(-1), starts, np.full(n_blocks, size - 4, np.int64))
    return (computed ^ np.uint32(seal)).astype("<u4")


def unpack(layout: BlockLayout, read: Callable[[int, int], bytes], seal: int, first: int, stop: int) -> BlockRows:
    """Return the rows `[first, stop)`, which lie in `[0, layout.n]`.

    Args:
        layout: Where the rows lie.
        read: Takes an offset in the blocks and a length, and returns those bytes; fewer at the end.
        seal: The seal they were packed with.
        first: The first row.
        stop: The row after the last.

    Raises:
        BrokenBlockError: A block is damaged, missing, or of another index.
    """
    summed = layout.columns[0]
    if not layout.width or first == stop:
        columns = {column.name: _constant(column, stop - first) for column in layout.columns}
        return BlockRows(columns, first * (summed.constant or 0) if first < stop else 0)
    block, behind = first // ROWS, -(-stop // ROWS)
    begin, end = layout.place(block), min(layout.place(behind), layout.n_bytes)
    data = read(begin, end - begin)
    if len(data) != end - begin:
        raise BrokenBlockError(f"the blocks end early: expected {end - begin} bytes, found {len(data)}")
    rows = _one(layout, data, seal) if behind == block + 1 else _several(layout, data, seal)
    skipped = first - block * ROWS
    kept = {name: array[skipped : skipped + stop - first] for name, array in rows.columns.items()}
    return BlockRows(kept, rows.before + int(rows.columns[summed.name][:skipped].sum(dtype=np.int64)))


def _one(layout: BlockLayout, data: bytes, seal: int) -> BlockRows:
    """Return the rows of one block; a lookup waits for it.

    Raises:
        BrokenBlockError: The checksum is wrong.
    """
    if crc32(memoryview(data)[:-4]) ^ seal != int.from_bytes(data[-4:], "little"):
        raise BrokenBlockError("a block is damaged, or of another index")
    n = (len(data) - 12) // layout.width
    columns, at = {}, 8
    for column in layout.columns:
        columns[column.name] = np.frombuffer(data, column.dtype, n, at) if column.width else _constant(column, n)
        at += n * column.width
    return BlockRows(columns, int.from_bytes(data[:8], "little", signed=True))


def _several(layout: BlockLayout, data: bytes, seal: int) -> BlockRows:
    """Return the rows of consecutive blocks; the last one may be shorter."""
    octets, size = np.frombuffer(data, np.uint8), layout.place(1)
    full = len(octets) // size * size
    rows = _rows(layout, octets[:full].reshape(-1, size), seal)
    if full == len(octets):
        return rows
    last = _one(layout, data[full:], seal)
    columns = {name: np.concatenate([array, last.columns[name]]) for name, array in rows.columns.items()}
    return BlockRows(columns, rows.before)


def _rows(layout: BlockLayout, blocks: Octets, seal: int) -> BlockRows:
    """Return the rows of blocks of equal size, uint8[n_blocks, size].

    Raises:
        BrokenBlockError: A checksum or a sum is wrong.
    """
    n_blocks, size = blocks.shape
    if not np.array_equal(_sealed(blocks, seal), _words(blocks[:, -4:], "<u4")):
        raise BrokenBlockError("a block is damaged, or of another index")
    rows = (size - 12) // layout.width
    columns = {column.name: _constant(column, n_blocks * rows) for column in layout.columns if not column.width}
    for column, part in _kept_in(layout, rows):
        columns[column.name] = _words(blocks[:, part], column.dtype)
    before = _words(blocks[:, :8], "<i8")
    if n_blocks > 1:
        summed = columns[layout.columns[0].name].reshape(n_blocks, rows)[:-1].sum(axis=1, dtype=np.int64)
        if not np.array_equal(np.diff(before), summed):
            raise BrokenBlockError("the sum of a block is wrong")
    return BlockRows(columns, int(before[0]))


def _words(octets: Octets, dtype: str) -> NumberArray:
    return np.ascontiguousarray(octets).view(dtype).reshape(-1)


def _constant(column: BlockColumn, n: int) -> NumberArray:
    return np.full(n, column.constant or 0, column.dtype)
