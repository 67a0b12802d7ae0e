"""From the files of a bag to its limits: which generation it is, and its table."""

from __future__ import annotations

import numpy as np

from dataformats.backends.granular.limits import (
    ENTRY_BYTES,
    Layout,
    Limits,
    indexed_layout,
    parse_limits,
    table_layout,
)
from dataformats.errors import FormatError
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["BAG", "IDX", "index_of", "judge_bag", "layout_of", "limits_of"]

BAG = ".bag"
IDX = ".idx"
_JUDGED_ENTRIES = 4096


def index_of(bag: StoredFile) -> StoredFile | None:
    """Return the `.idx` beside a `.bag`, which only generation 3 has."""
    name = bag.basename
    return bag.sibling(name.removesuffix(BAG) + IDX) if name.endswith(BAG) else None


def layout_of(bag: StoredFile, idx: StoredFile | None) -> Layout:
    """Return how a bag is laid out; reads 16 bytes at most.

    Raises:
        FormatError: Without an `.idx`, it has no table at its end.
    """
    if idx is not None:
        return indexed_layout(bag.size, idx.size, idx.name)
    last = bag.pread(max(0, bag.size - ENTRY_BYTES), ENTRY_BYTES)
    start = int.from_bytes(last, "little")
    first = bag.pread(start, ENTRY_BYTES) if start < bag.size else b""
    return table_layout(bag.size, last, first, bag.name)


def limits_of(bag: StoredFile, idx: StoredFile | None) -> Limits:
    """Return the limits of a bag; its table is read whole, which is never more than the file has.

    Raises:
        FormatError: It has none.
    """
    layout = layout_of(bag, idx)
    holder = bag if idx is None else idx
    table = holder.pread(layout.table_offset, layout.table_bytes)
    holder.release()
    if len(table) < layout.table_bytes:
        raise FormatError("the table of limits ends early", path=holder.name, offset_bytes=layout.table_offset)
    return parse_limits(table, layout)


def judge_bag(bag: StoredFile) -> SniffResult:
    """Judge a non-empty file by its content and, where it is called `.bag`, by the `.idx` beside it."""
    named = bag.basename.endswith(BAG)
    try:
        idx = index_of(bag)
        layout = layout_of(bag, idx)
        why = "" if named else _misfit(bag, layout)
    except FormatError as error:
        why = error.what
    finally:
        bag.release()
    if not why:
        return SniffResult("yes")
    return SniffResult("damaged" if named else "no", why)


def _misfit(bag: StoredFile, layout: Layout) -> str:
    """Return what speaks against a bag where only the last 8 bytes speak for one; empty where nothing does."""
    if layout.data_bytes == 0:
        return "no table of limits at the end, or one of empty records alone"
    n = min(layout.n_records, _JUDGED_ENTRIES)
    head = Layout(layout.generation, n, layout.data_bytes, layout.table_offset, layout.table_path)
    limits = parse_limits(bag.pread(head.table_offset, head.table_bytes), head)
    _, length, wrong = limits.extents(np.arange(n))
    sound = not wrong.any() and (layout.generation == 1 or bool((length > 0).all()))
    return "" if sound else "the last 8 bytes lead to no table of limits"
