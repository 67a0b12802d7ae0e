"""Find or decompress the bytes of the extents of a batch, so that the kernels read the blobs from memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import Extents, KernelCheck
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import FrameCheck, buffers, gather_from
from dataformats.storage.compressed.seekable_gzip import DecompressedFile

OVERLAP_BYTES = 64 * 2**20
"""Below this, extents that overlap are read as they are."""

_MAX_FILES = 16  # files of one batch
_SPREAD = 2  # times the bytes of the blobs: a span with longer gaps holds too many bytes that are not needed


class MemorySpans(NamedTuple):
    """The memory in which the blobs of a batch lie.

    Attributes:
        extents: The extents of each field, with numbers of spans, and offsets in them.
        facts: The arguments of `hold_files`: the address of each span, its size, and no time.
        buffers: The spans, which must live as long as their addresses are used.
    """

    extents: Sequence[Extents]
    facts: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]
    buffers: object


class FlatExtents(NamedTuple):
    """The extents of all fields, one behind the other, with their framing.

    Attributes:
        file: int64[n], the number of the file.
        begin: int64[n], the first byte.
        size: int64[n], the number of bytes; all are inside the file.
        files: The files by their numbers.
    """

    file: NDArray[np.int64]
    begin: NDArray[np.int64]
    size: NDArray[np.int64]
    files: Mapping[int, StoredFile]

    @classmethod
    def of(cls, files: Sequence[StoredFile], requests: Sequence[Extents], max_bytes: int) -> FlatExtents | None:
        """Return the extents of requests; `None` if the reference path must read them.

        Args:
            files: The files that the extents number.
            requests: Extents, such as one for each field.
            max_bytes: The most bytes of a blob.
        """
        if any(one.problems for one in requests):
            return None
        file, begin, length, size = map(np.concatenate, zip(*map(_columns, requests), strict=True))
        if not len(file) or length.min() < 0 or length.max() > max_bytes or file.min() < 0 or file.max() >= len(files):
            return None
        numbers, owners = np.unique(file, return_inverse=True)
        by_number = {number: files[number] for number in numbers.tolist()}
        room = np.array([one.size for one in by_number.values()])[owners] - size
        return None if ((begin < 0) | (begin > room)).any() else cls(file, begin, size, by_number)


def one_span(
    requests: Sequence[Extents], places: NDArray[np.int64], address: int, n_bytes: int, kept: object
) -> MemorySpans:
    """Return a span that has all extents: each begins, with its framing, at its place."""
    facts = np.array([address], np.uint64), np.array([n_bytes]), np.array([-1])
    parts = np.split(places, np.cumsum([len(one) for one in requests])[:-1])
    moved = [
        replace(one, file=np.zeros(len(one), np.int32), offset=part + one.head)
        for one, part in zip(requests, parts, strict=True)
    ]
    return MemorySpans(moved, facts, kept)


def find_kept(files: Sequence[StoredFile], requests: Sequence[Extents], max_bytes: int) -> MemorySpans | None:
    """Return a copy of these extents from decompressed blocks in memory; `None` if one of them is not there.

    Args:
        files: The files that the extents number.
        requests: Extents, such as one for each field.
        max_bytes: The most bytes of a blob.
    """
    flat = FlatExtents.of(files, requests, max_bytes)
    if flat is None:
        return None
    n_bytes, n_stored = int(flat.size.sum()), sum(one.size for one in flat.files.values())
    if n_bytes > OVERLAP_BYTES and n_bytes > 2 * n_stored:
        return None
    blocks: list[memoryview] = []
    pieces = [one for number, file in flat.files.items() for one in _pieces(flat, number, file, blocks)]
    if not pieces:
        return None
    rows, owners, begins, lengths = map(np.concatenate, zip(*pieces, strict=True))
    if int(lengths.sum()) != n_bytes:
        return None
    order = np.argsort(rows, kind="stable")
    span, _ = gather_from(blocks, owners[order], begins[order], lengths[order])
    return one_span(requests, np.cumsum(flat.size) - flat.size, span.ctypes.data, n_bytes, span)


def _pieces(
    flat: FlatExtents, number: int, file: StoredFile, blocks: list[memoryview]
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Add blocks; yield rows, and for each the block, the place and the length of its next piece."""
    rows = np.flatnonzero((flat.file == number) & (flat.size > 0))
    at, end = flat.begin[rows], flat.begin[rows] + flat.size[rows]
    while len(rows) and (kept := file.blocks_in_memory(at)) is not None:
        owners, starts, found = kept
        stops = starts + [len(block) for block in found]
        until = np.minimum(end, stops[owners])
        if (until <= at).any():
            return  # the block was kept when the index said that the file is shorter
        yield rows, owners + len(blocks), at - starts[owners], until - at
        blocks += found
        left = until < end
        rows, at, end = rows[left], until[left], end[left]


def _columns(one: Extents) -> tuple[NDArray[Any], ...]:
    """Return file, first byte of the framing and length of each blob, and its bytes with the framing."""
    return one.file, one.offset - one.head, one.length, one.length + (one.head + one.tail)


def decompress_around(files: Sequence[StoredFile], extents: Extents, max_bytes: int) -> MemorySpans | None:
    """Return the spans of these extents; `None` if they are too far apart, or the reference path must read them.

    Args:
        files: The files that the extents number.
        extents: Where the blobs lie.
        max_bytes: The most bytes of a blob.
    """
    length = extents.length
    if not len(extents) or extents.problems or length.min() < 0 or length.max() > max_bytes:
        return None
    numbers = [int(extents.file[0])] if (extents.file == extents.file[0]).all() else np.unique(extents.file).tolist()
    if len(numbers) > _MAX_FILES or not 0 <= numbers[0] <= numbers[-1] < len(files):
        return None
    addresses, sizes = np.zeros(len(files), np.uint64), np.zeros(len(files), np.int64)
    offset, spans = extents.offset - extents.head, []
    for number in numbers:
        here = slice(None) if len(numbers) == 1 else extents.file == number
        begin, size = offset[here], length[here] + (extents.head + extents.tail)
        first, last = int(begin.min()), int((begin + size).max())
        is_checked = isinstance(extents.check, KernelCheck) and extents.check.kernel == FrameCheck.TFRECORD
        span = _decompressed(files[number], first, last, _SPREAD * int(size.sum()), is_checked=is_checked)
        if span is None:
            return None
        addresses[number], sizes[number] = span.ctypes.data, len(span)
        offset[here] -= first
        spans.append(span)
    around = (extents.head, extents.tail, extents.stored, extents.check)
    moved = Extents(extents.file, offset + extents.head, length, *around)
    return MemorySpans([moved], (addresses, sizes, np.full(len(files), -1, np.int64)), spans)


def _decompressed(
    file: StoredFile, first: int, last: int, max_bytes: int, *, is_checked: bool
) -> NDArray[np.uint8] | None:
    if not file.is_compressed or not 0 <= first <= last <= file.size or last - first > max_bytes:
        return None
    span = buffers.empty(last - first)
    read = file.read_in_order if is_checked and isinstance(file, DecompressedFile) else file.read_into
    try:
        n = read(first, span.data)
    except FormatError:
        return None
    return span if n == len(span) else None
