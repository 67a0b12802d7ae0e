"""Locates and loads the limits of a bag: from its own end, or from the `.idx` beside it."""

from __future__ import annotations

from dataformats.backends.granular.layout import (
    ENTRY_BYTES,
    BagLayout,
    BagLimits,
    indexed_layout,
    parse_limits,
    table_layout,
)
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile

BAG = ".bag"
IDX = ".idx"


def index_of(bag: StoredFile) -> StoredFile | None:
    """Return the `.idx` beside a `.bag`, or `None`; only generation 3 has one."""
    name = bag.basename
    return bag.file_beside(name.removesuffix(BAG) + IDX) if name.endswith(BAG) else None


def layout_of(bag: StoredFile, idx: StoredFile | None) -> BagLayout:
    """Return the layout of a bag; reads 16 bytes at most.

    Raises:
        FormatError: It has neither an `.idx` nor a table at its end.
    """
    if idx is not None:
        return indexed_layout(bag.size, idx.size, idx.name)
    last = bag.pread(max(0, bag.size - ENTRY_BYTES), ENTRY_BYTES)
    start = int.from_bytes(last, "little")
    first = bag.pread(start, ENTRY_BYTES) if start < bag.size else b""
    return table_layout(bag.size, last, first, bag.name)


def limits_of(bag: StoredFile, idx: StoredFile | None, record_bytes: int | None = None) -> BagLimits:
    """Return the limits of a bag; reads the whole table, whose size is bounded by the file's.

    Args:
        bag: The records.
        idx: The table, in generation 3.
        record_bytes: The size of every record, if it is known.

    Raises:
        FormatError: It has no table, or an incomplete or unreadable one.
    """
    layout = layout_of(bag, idx)
    holder = bag if idx is None else idx
    table = holder.pread(layout.table_offset, layout.table_bytes)
    holder.release()
    if len(table) < layout.table_bytes:
        raise FormatError(
            "the table of limits ends early",
            path=holder.name,
            offset_bytes=layout.table_offset,
            expected=f"{layout.table_bytes} bytes",
            found=f"{len(table)} bytes",
        )
    return parse_limits(table, layout, record_bytes)
