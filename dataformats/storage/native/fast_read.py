"""Read the blobs of many extents by native calls: checked, laid out back to back, read and verified.

This is the fast path: it returns all blobs or none. If anything is wrong, its reference, `storage.reference_read`,
reads them again and reports the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.batch.value_slices import SplitBlobs, StoredBlobs, ValueSlice
from dataformats.interfaces import Extents, KernelCheck, Located
from dataformats.kernels import (
    MAX_FRAMING,
    SKIP_FILE,
    FrameCheck,
    Out,
    buffers,
    hold_extents,
    hold_files,
    lay_out,
    read_laid,
    reads_batches,
)
from dataformats.kernels import read_record as read_pinned
from dataformats.storage.compressed.memory_spans import OVERLAP_BYTES, decompress_around, find_kept
from dataformats.storage.descriptors import DESCRIPTORS, is_shortage, max_open_files
from dataformats.storage.files import LocalFile
from dataformats.storage.native.cached_extents import find_cached
from dataformats.storage.native.file_set import FileSet
from dataformats.storage.threads import kernel_threads

_MAX_BYTES = 2**62
_MIN_OPEN_FILES = 8  # any process may open this many at once
RECORD_BYTES = 64 * 2**10
"""The most bytes for `read_record`: reading more takes so long that the calls of a batch do not matter."""


class FileNumbers(Protocol):
    """The number of each record's file: int32[n], or what gives the same numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, records: NDArray[Any], /) -> NDArray[np.int32]: ...
    def item(self, record: int, /) -> int:
        """Return the file of one record; of a record out of range: IndexError, or no file's number."""
        ...


class PinnedTable(NamedTuple):
    """The extents of some fields of all records, held by the kernels.

    Attributes:
        fields: Their names.
        handles: The result of `pin_extents` or `hold_index` for each field.
        files: For each field the file of each record.
    """

    fields: tuple[str, ...]
    handles: tuple[Any, ...]
    files: tuple[FileNumbers, ...]


class PinnedRows(NamedTuple):
    """Some rows of a table, which the kernels look up: any numbers, checked there.

    Attributes:
        table: The table.
        rows: int64[n], indices of records.
    """

    table: PinnedTable
    rows: NDArray[np.int64]


def pin_extents(extents: Extents) -> Any | None:
    """Return extents as the kernels hold them; `None` if only the reference path can read them."""
    if extents.problems or extents.fetch is not None or extents.head > MAX_FRAMING or extents.tail > MAX_FRAMING:
        return None
    check = FrameCheck.NOTHING
    if extents.check is not None:
        if not isinstance(extents.check, KernelCheck):
            return None
        check = extents.check.kernel
    framing = (extents.head, extents.tail)
    return hold_extents(extents.file, extents.offset, extents.length, extents.stored, framing, check)


def read(
    files: FileSet,
    located: Mapping[str, Located] | PinnedRows,
    max_bytes: int,
    slices: Sequence[ValueSlice | None] = (),
) -> StoredBlobs | None:
    """Return the blobs of each field; `None` if the reference path must read them.

    Args:
        files: The files that the extents number.
        located: Where the blobs lie.
        max_bytes: A longer blob is not read.
        slices: The slice of each field's blobs that is read straight into a column; empty if no field has one.
    """
    if not files.gathers:
        return _read_spans(files, located, max_bytes, slices)
    if isinstance(located, PinnedRows):
        (_, handles, _), rows = located
        counts = [len(rows)] * len(handles)
    else:
        rows, handles = None, tuple([pin_extents(one.extents) for one in located.values()])
        if None in handles:
            return None
        counts = [len(one.extents) for one in located.values()]
    room = np.empty(2 * sum(counts) + len(counts), np.int64)
    max_bytes = min(max_bytes, _MAX_BYTES)
    laid = lay_out(handles, rows, files.held, max_bytes, room)
    if files.waiting and _needs_memory(files, laid):
        files.bring_in(_file_numbers(located))
        laid = lay_out(handles, rows, files.held, max_bytes, room)
    if laid is None or (files.in_memory and _needs_memory(files, laid)):
        return None
    held, sizes, numbers = laid
    n_bytes = sum(sizes)
    if n_bytes > OVERLAP_BYTES and n_bytes > 2 * int(files.sizes.sum()):
        return None  # the reference path reads once what extents share
    outs = tuple([_out(*each) for each in zip(sizes, counts, slices or [None] * len(counts), strict=True)])
    if not (_read_group if len(numbers) <= _MIN_OPEN_FILES else _read_groups)(files, held, outs, numbers):
        return None
    blobs = _blobs(room, counts, outs)
    if isinstance(located, PinnedRows):
        (fields, _, _), _ = located
        return {name: (one, None) for name, one in zip(fields, blobs, strict=True)}
    return {name: (one, located[name].counts) for name, one in zip(located, blobs, strict=True)}


def _read_spans(
    files: FileSet, located: Mapping[str, Located] | PinnedRows, max_bytes: int, slices: Sequence[ValueSlice | None]
) -> StoredBlobs | None:
    """Read blobs from memory: where the cache of this thread has them, or the bytes around them are decompressed."""
    if not reads_batches() or isinstance(located, PinnedRows):
        return None
    requests = [one.extents for one in located.values()]
    if not requests or any(one.fetch is not None for one in requests):
        return None
    max_bytes = min(max_bytes, _MAX_BYTES)
    spans = find_cached(files, requests, max_bytes)
    if spans is None and len(requests) == 1:
        spans = decompress_around(files, requests[0], max_bytes)
    if spans is None:
        spans = find_kept(files, requests, max_bytes)
    handles = () if spans is None else tuple(map(pin_extents, spans.extents))
    if spans is None or None in handles:
        return None
    counts = list(map(len, requests))
    room = np.empty(2 * sum(counts) + len(counts), np.int64)
    laid = lay_out(handles, None, hold_files(*spans.facts), max_bytes, room)
    if laid is None:
        return None
    held, sizes, _ = laid
    if sum(sizes) > OVERLAP_BYTES and sum(sizes) > 2 * int(spans.facts[1].sum()):
        return None
    outs = tuple([_out(*each) for each in zip(sizes, counts, slices or [None] * len(counts), strict=True)])
    if not read_laid(held, outs, np.full(len(spans.facts[0]), -1, np.int32), None, *kernel_threads()):
        return None
    blobs = _blobs(room, counts, outs)
    return {name: (one, located[name].counts) for name, one in zip(located, blobs, strict=True)}


def read_record(files: FileSet, table: PinnedTable, row: int, max_bytes: int) -> list[bytearray] | None:
    """Return the blob of each field of one record; `None` if it must be read as a batch, or by the reference path.

    Args:
        files: The files that the extents number.
        table: Where the blobs lie.
        row: The record, at least 0.
        max_bytes: More bytes are not read.
    """
    _, handles, numbers = table
    try:
        first = files.local[numbers[0].item(row)]
        if len(numbers) == 1 and first is not None:
            return _read_blob(files, handles, row, max_bytes, first)
        local = [first, *[files.local[file.item(row)] for file in numbers[1:]]]
    except IndexError:
        return None  # the files have fewer records than an earlier index said
    borrowed = local if None not in local else [file for file in local if file is not None]
    if not borrowed:
        return read_pinned(handles, row, files.held, max_bytes, [-1] * len(local), None)
    try:
        fds = DESCRIPTORS.borrow(borrowed)
    except OSError as error:
        if not is_shortage(error):
            raise
        return None
    try:
        if borrowed is not local:
            by_file = dict(zip(borrowed, fds, strict=True))
            fds = [by_file.get(file, -1) for file in local]
        return read_pinned(handles, row, files.held, max_bytes, fds, files.engine.capsule)
    finally:
        DESCRIPTORS.give_back(borrowed)


def _read_blob(
    files: FileSet, handles: tuple[Any, ...], row: int, max_bytes: int, file: LocalFile
) -> list[bytearray] | None:
    """Return the only blob of a record in a list; `None` as `read_record`."""
    try:
        entry = DESCRIPTORS.borrow_one(file)
    except OSError as error:
        if not is_shortage(error):
            raise
        return None
    try:
        return read_pinned(handles, row, files.held, max_bytes, [entry[0]], files.engine.capsule)
    finally:
        DESCRIPTORS.give_back_one(file, entry)


def _needs_memory(files: FileSet, laid: tuple[Any, list[int], list[int]] | None) -> bool:
    """Return True if blobs were laid out before their file was in memory, or not at all: it has 0 bytes until then."""
    return laid is None or not files.in_memory.isdisjoint(laid[2])


def _file_numbers(located: Mapping[str, Located] | PinnedRows) -> set[int]:
    """Return the numbers of the files in which blobs lie."""
    if not isinstance(located, PinnedRows):
        return {number for one in located.values() for number in one.extents.file.tolist()}
    table, rows = located
    return {number for file in table.files for number in file[rows[(rows >= 0) & (rows < len(file))]].tolist()}


def _out(n_bytes: int, n: int, part: ValueSlice | None) -> Out:
    if part is None or n * part.n_bytes > n_bytes:  # most blobs are too short, and its array would exceed them all
        return buffers.empty(n_bytes), None, 0, 0
    return buffers.empty(n_bytes), buffers.empty(n * part.n_bytes), part.begin, part.n_bytes


def _blobs(room: NDArray[np.int64], counts: list[int], outs: tuple[Out, ...]) -> list[Blobs | SplitBlobs]:
    found: list[Blobs | SplitBlobs] = []
    at = 0
    for n, (out, rows, begin, n_bytes) in zip(counts, outs, strict=True):
        offsets = room[at : at + n + 1]
        at += 2 * n + 1
        blobs = Blobs(out, offsets[:-1], room[at - n : at], offsets)
        found.append(blobs if rows is None else SplitBlobs(blobs, ValueSlice(begin, n_bytes), rows.reshape(n, n_bytes)))
    return found


def _read_groups(files: FileSet, held: Any, outs: tuple[Out, ...], numbers: list[int]) -> bool:
    """Read from many files, a few at a time."""
    most = max(_MIN_OPEN_FILES, max_open_files() // 4)  # other threads borrow some as well
    groups = [numbers[first : first + most] for first in range(0, len(numbers), most)]
    return all(_read_group(files, held, outs, group, is_rest=group is not groups[0]) for group in groups)


def _read_group(
    files: FileSet, held: Any, outs: tuple[Out, ...], numbers: list[int], *, is_rest: bool | None = None
) -> bool:
    """Read the blobs in the files of these numbers.

    Args:
        files: All files.
        held: The layout, from `lay_out`.
        outs: The arrays to fill.
        numbers: The files to open.
        is_rest: True if another call has read the files in memory; `None`: there are no other calls.
    """
    pool, n_threads = kernel_threads()
    if not numbers:
        return read_laid(held, outs, files.no_descriptors, None, pool, n_threads)
    taken = False
    try:
        fds = files.take(numbers)
        taken = True
        if is_rest is not None:
            fds[fds < 0] = SKIP_FILE
        return read_laid(held, outs, fds, files.engine.capsule, pool, n_threads, not is_rest)
    except OSError as error:
        if not is_shortage(error):
            raise
        return False  # the reference path opens one file at a time
    finally:
        if taken:
            files.give_back(numbers)
