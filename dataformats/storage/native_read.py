"""The blobs of many extents by native calls: looked up, laid out back to back, read and verified.

It gives all or nothing. Where anything is wrong, `storage.reading` goes the careful way, which is this one's twin and
says what it is.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.batch.inline_values import SplitBlobs, ValueSlice
from dataformats.interfaces import Extents, KernelCheck
from dataformats.kernels import (
    LEFT,
    MAX_FRAMING,
    FrameCheck,
    Out,
    buffers,
    hold_extents,
    lay_out,
    read_laid,
)
from dataformats.storage.file_set import FileSet
from dataformats.storage.files import max_open_files
from dataformats.storage.threads import kernel_threads

__all__ = ["gather", "held", "look_up"]

_MOST = 2**62
_MUCH = 64 * 2**20  # up to here nobody asks whether extents overlap
_FEW = 8  # files: so many may be borrowed in any process


def held(extents: Extents) -> Any | None:
    """Return extents as the kernels hold them; `None` where only the careful way can read them."""
    if extents.problems or extents.head > MAX_FRAMING or extents.tail > MAX_FRAMING:
        return None
    check = FrameCheck.NOTHING
    if extents.check is not None:
        if not isinstance(extents.check, KernelCheck):
            return None
        check = extents.check.kernel
    framing = (extents.head, extents.tail)
    return hold_extents(extents.file, extents.offset, extents.length, extents.stored, framing, check)


def gather(
    files: FileSet, requests: Sequence[Extents], max_bytes: int, windows: Sequence[ValueSlice | None] = ()
) -> list[Blobs | SplitBlobs] | None:
    """Return the blobs of each request, or `None` where they have to be read the careful way.

    Args:
        files: What the extents' file numbers mean.
        requests: Extents, one for each field, say.
        max_bytes: A longer blob is not read.
        windows: Of each request, the part of its blobs that goes to an array of its own; none: of no request.
    """
    if not files.gathers:
        return None
    indexes = tuple([held(request) for request in requests])
    if None in indexes:
        return None
    if files.waiting:
        files.bring_in({number for request in requests for number in request.file.tolist()})
    counts = [len(request) for request in requests]
    return _read(files, indexes, None, counts, max_bytes, windows)


def look_up(
    files: FileSet,
    indexes: tuple[Any, ...],
    records: NDArray[np.int64],
    max_bytes: int,
    windows: Sequence[ValueSlice | None] = (),
) -> list[Blobs | SplitBlobs] | None:
    """Return the blobs of some records of each field, or `None` where they have to be located first.

    Args:
        files: What the extents' file numbers mean; it `gathers`.
        indexes: The extents of all records, of each field, as `held` gives them.
        records: int64[n], which records; any numbers.
        max_bytes: A longer blob is not read.
        windows: As `gather` takes them.
    """
    return _read(files, indexes, records, [len(records)] * len(indexes), max_bytes, windows)


def _read(
    files: FileSet,
    indexes: tuple[Any, ...],
    records: NDArray[np.int64] | None,
    counts: list[int],
    max_bytes: int,
    windows: Sequence[ValueSlice | None],
) -> list[Blobs | SplitBlobs] | None:
    room = np.empty(2 * sum(counts) + len(counts), np.int64)
    laid = lay_out(indexes, records, files.facts, min(max_bytes, _MOST), room)
    if laid is None:
        return None
    held, sizes, numbers = laid
    if files.in_memory and not files.in_memory.isdisjoint(numbers):
        return None  # one had yet to be brought in, even if another thread has done so since
    n_bytes = sum(sizes)
    if n_bytes > _MUCH and n_bytes > 2 * int(files.sizes.sum()):
        return None  # extents that overlap: the careful way reads once what they share
    outs = tuple([_out(*each) for each in zip(sizes, counts, windows or [None] * len(counts), strict=True)])
    done = (_read_group if len(numbers) <= _FEW else _read_groups)(files, held, outs, numbers)
    return _given(room, counts, outs) if done else None


def _out(n_bytes: int, n: int, window: ValueSlice | None) -> Out:
    if window is None or n * window.n_bytes > n_bytes:  # most blobs are too short, and its array would exceed them all
        return buffers.empty(n_bytes), None, 0, 0
    return buffers.empty(n_bytes), buffers.empty(n * window.n_bytes), window.begin, window.n_bytes


def _given(room: NDArray[np.int64], counts: list[int], outs: tuple[Out, ...]) -> list[Blobs | SplitBlobs]:
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
    most = max(_FEW, max_open_files() // 4)  # other threads borrow some as well
    groups = [numbers[first : first + most] for first in range(0, len(numbers), most)]
    return all(_read_group(files, held, outs, group, is_rest=group is not groups[0]) for group in groups)


def _read_group(
    files: FileSet, held: Any, outs: tuple[Out, ...], numbers: list[int], *, is_rest: bool | None = None
) -> bool:
    """Read what lies in the files of these numbers.

    Args:
        files: All files.
        held: What lies where.
        outs: Where it goes.
        numbers: Which files.
        is_rest: Whether another call has read what lies in memory; `None`: there are no other calls.
    """
    pool, n_threads = kernel_threads()
    if not numbers:
        return read_laid(held, outs, files.no_descriptors, None, pool, n_threads)
    taken = False
    try:
        fds = files.take(numbers)
        taken = True
        if is_rest is not None:
            fds[fds < 0] = LEFT
        return read_laid(held, outs, fds, files.engine.capsule, pool, n_threads, not is_rest)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        return False  # the careful way opens one file at a time
    finally:
        if taken:
            files.give_back(numbers)
