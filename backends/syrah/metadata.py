"""The metadata of a Syrah file, without I/O: the names and dtypes of arrays, and the place of each item."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.syrah.document import BINARY, DOCUMENT, INT32, STRING, Element, elements
from dataformats.backends.syrah.layout import HEADER
from dataformats.errors import FormatError

ITEM_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8", "str"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64"), 8),
    "float128": 16,
}
"""The dtypes of the format, and the bytes of one number (of `str`: of one byte of UTF-8); all are powers of two."""

_KINDS = {"offset": BINARY, "size": BINARY, "dtype": STRING}
_FRAME_BYTES = len(b"\x05offset\0\x05size\0\x02dtype\0") + 2 * 5 + 4  # an array's document without its values


@dataclass(frozen=True, slots=True)
class ArrayTable:
    """The places of the arrays of one name, item by item, as stored: offsets and sizes may be wrong.

    Attributes:
        dtype: The stored dtype; may be missing in `ITEM_BYTES`.
        offset: int64[n], first byte of the array in the file; a view of the metadata, which may be unaligned.
        size: int64[n], its bytes; also a view.
    """

    dtype: str
    offset: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)


def parse_metadata(data: bytes | bytearray, path: str, base: int) -> dict[str, ArrayTable]:
    """Return the tables by array name, in the order of the file; all are of the same length.

    Args:
        data: The BSON document; the tables are views of it.
        path: The file, for errors.
        base: The offset of the document in the file, for errors.

    Raises:
        FormatError: It is not such a document.
    """
    tables: dict[str, ArrayTable] = {}
    for element in elements(data, 0, len(data), path, base):
        if element.name in tables:
            raise FormatError(f"two arrays are called {element.name!r}", path=path, offset_bytes=base + element.start)
        if element.kind != DOCUMENT:
            raise FormatError(f"{element.name!r} is not an array", path=path, offset_bytes=base + element.start)
        tables[element.name] = _table(data, element, path, base)
    if not tables:
        raise FormatError("the metadata name no array", path=path, offset_bytes=base)
    _check_lengths(tables, path, base)
    return tables


def find_unsound(table: ArrayTable, end: int) -> NDArray[np.bool_]:
    """Return bool[n]: arrays that lie outside the data, or have a part of an item.

    Args:
        table: Their places.
        end: The byte behind the data.
    """
    offset, size, width = table.offset, table.size, ITEM_BYTES.get(table.dtype, 1)
    # end - offset can overflow only if the offset is negative, which is wrong anyway.
    wrong: NDArray[np.bool_] = (offset < HEADER.size) | (offset > end) | (size < 0) | (size > end - offset)
    return wrong | ((size & (width - 1)) != 0) if width > 1 else wrong


def build_metadata(dtypes: Mapping[str, str], offsets: Sequence[bytes], sizes: Sequence[bytes]) -> list[bytes]:
    """Return the BSON document, in pieces.

    Args:
        dtypes: Array name to dtype.
        offsets: The little-endian int64 table of offsets of each array, in the same order.
        sizes: The table of sizes of each array.
    """
    frames = build_frames(dtypes, len(offsets[0]) // 8 if offsets else 0)
    tables = [*itertools.chain.from_iterable(zip(offsets, sizes, strict=True)), b""]
    return list(itertools.chain.from_iterable(zip(frames, tables, strict=True)))


def build_frames(dtypes: Mapping[str, str], n_items: int) -> list[bytes]:
    """Return the 2k + 1 pieces of the BSON document around its 2k tables: the offsets and the sizes of each array.

    Args:
        dtypes: Array name to dtype.
        n_items: The number of items.
    """
    size = INT32.pack(8 * n_items) + b"\0"
    frames, frame = [], INT32.pack(metadata_bytes(dtypes, n_items))
    for name, dtype in dtypes.items():
        head = b"\x03" + name.encode() + b"\0" + INT32.pack(_array_bytes(dtype, n_items))
        frames += [frame + head + b"\x05offset\0" + size, b"\x05size\0" + size]
        frame = b"\x02dtype\0" + INT32.pack(len(dtype) + 1) + dtype.encode() + b"\0\0"
    return [*frames, frame + b"\0"]


def table_places(frames: Sequence[bytes], n_items: int, start: int) -> list[int]:
    """Return where the tables between these frames begin, and where the document ends that begins at byte `start`."""
    ends = itertools.accumulate(map(len, frames), initial=start)
    return [end + 8 * n_items * number for number, end in enumerate(itertools.islice(ends, 1, None))]


def metadata_bytes(dtypes: Mapping[str, str], n_items: int) -> int:
    """Return the size of the document for `n_items` items."""
    return 5 + sum(len(name.encode()) + 2 + _array_bytes(dtype, n_items) for name, dtype in dtypes.items())


def _array_bytes(dtype: str, n_items: int) -> int:
    return 5 + _FRAME_BYTES + 16 * n_items + len(dtype.encode()) + 1


def _table(data: bytes | bytearray, array: Element, path: str, base: int) -> ArrayTable:
    parts: dict[str, Element] = {}
    for part in elements(data, array.start, array.stop, path, base):
        if part.kind == DOCUMENT:
            raise FormatError(
                "the layout of syrah 0.1.1, with one document an item, is not supported",
                path=path,
                offset_bytes=base + part.start,
                expected="the layout of syrah 0.1.3 and later, with one document an array",
                remedy="Read it with syrah 0.1.1 and write it again",
            )
        if _KINDS.get(part.name) != part.kind or part.subtype or part.name in parts:
            raise _no_table(array, path, base + part.start, f"{part.name!r} of BSON type {part.kind:#04x}")
        parts[part.name] = part
    if len(parts) < len(_KINDS):
        raise _no_table(array, path, base + array.start, f"only {', '.join(parts) or 'nothing'}")
    try:
        dtype = str(data[parts["dtype"].start : parts["dtype"].stop], "utf-8")
    except UnicodeDecodeError as error:
        raise _no_table(array, path, base + parts["dtype"].start, "a dtype that is not UTF-8") from error
    return ArrayTable(dtype, *(_numbers(data, parts[name], array.name, path, base) for name in ("offset", "size")))


def _numbers(data: bytes | bytearray, part: Element, array: str, path: str, base: int) -> NDArray[np.int64]:
    length = part.stop - part.start
    if length % 8:
        raise FormatError(
            f"array {array!r}: the table {part.name!r} is not a list of int64",
            path=path,
            offset_bytes=base + part.start,
            expected="a multiple of 8 bytes",
            found=f"{length} bytes",
        )
    numbers = np.frombuffer(data, "<i8", length // 8, part.start)
    numbers.flags.writeable = False
    return numbers


def _check_lengths(tables: Mapping[str, ArrayTable], path: str, base: int) -> None:
    n_items = len(next(iter(tables.values())))
    for name, table in tables.items():
        found = {len(table.offset), len(table.size)} - {n_items}
        if found:
            raise FormatError(
                f"array {name!r}: its tables differ in length from the first array's",
                path=path,
                offset_bytes=base,
                expected=f"{n_items} items",
                found=f"{found.pop()} items",
            )


def _no_table(array: Element, path: str, offset_bytes: int, found: str) -> FormatError:
    return FormatError(
        f"array {array.name!r} has no valid description",
        path=path,
        offset_bytes=offset_bytes,
        expected="the binaries offset and size, and the text dtype",
        found=found,
    )
