"""The blobs of many extents by one native call: located, read, verified and laid back to back.

It gives all or nothing. Where anything is wrong, `storage.reading` goes the careful way, which is this one's twin and
says what it is.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.interfaces import Extents, KernelCheck
from dataformats.kernels import MAX_FRAMING, BlobField, FrameCheck, buffers, places, read_batch
from dataformats.storage.files import most_open
from dataformats.storage.fileset import FileSet
from dataformats.storage.threads import in_parallel, n_threads
from dataformats.windows import Around, Window

__all__ = ["gather"]

_MOST = 2**62
_MUCH = 64 * 2**20  # up to here nobody asks whether extents overlap
_SHARE_BYTES = 3 * 2**20  # to wake a thread for less costs as much as it does, and twice that in processor time
_FEW = 8  # files: so many may be borrowed in any process


def gather(
    files: FileSet, requests: Sequence[Extents], max_bytes: int, windows: Sequence[Window | None] = ()
) -> list[Blobs | Around] | None:
    """Return the blobs of each request, or `None` where they have to be read the careful way.

    Args:
        files: What the extents' file numbers mean.
        requests: Extents, one for each field, say.
        max_bytes: A longer blob is not read.
        windows: Of each request, the part of its blobs that goes to an array of its own; none: of no request.
    """
    if not files.gathers:
        return None
    numbers = files.used(requests)
    laid: list[tuple[Extents, int, NDArray[np.int64]]] = []
    n_bytes = 0
    for request in requests:
        check = _kernel_of(request)
        if check is None or (offsets := _places(files, request, max_bytes)) is None:
            return None
        laid.append((request, check, offsets))
        n_bytes += int(offsets[-1])
    if n_bytes > _MUCH and n_bytes > 2 * int(files.sizes.sum()):
        return None  # extents that overlap: the careful way reads once what they share
    fields = [_field(*each, window) for each, window in zip(laid, windows or [None] * len(laid), strict=True)]
    if n_bytes < 2 * _SHARE_BYTES and len(numbers) <= _FEW:
        done = _read(files, numbers, [fields])
    else:
        done = _read_much(files, numbers, fields, n_bytes)
    return [_given(field) for field in fields] if done else None


def _kernel_of(request: Extents) -> int | None:
    """Return the kernel's check that does what the request's does; `None` where there is none."""
    if request.problems or request.head > MAX_FRAMING or request.tail > MAX_FRAMING:
        return None
    if request.check is None:
        return FrameCheck.NOTHING
    return request.check.kernel if isinstance(request.check, KernelCheck) else None


def _field(request: Extents, check: int, offsets: NDArray[np.int64], window: Window | None) -> BlobField:
    where = (request.file, request.offset, request.length, request.stored, offsets)
    field = BlobField(*where, buffers.empty(int(offsets[-1])), request.head, request.tail, check)
    n = len(request)
    if window is None or n * window.n_bytes > int(offsets[-1]):
        return field  # most blobs are too short for it, and an array for it would be larger than all of them
    place = np.arange(0, n * window.n_bytes, window.n_bytes)
    return field._replace(
        window_place=place,
        window_out=buffers.empty(n * window.n_bytes),
        window_begin=window.begin,
        window_bytes=window.n_bytes,
    )


def _given(field: BlobField) -> Blobs | Around:
    blobs = Blobs(field.out, field.place[:-1], field.length, field.place)
    if field.window_out is None:
        return blobs
    window = Window(field.window_begin, field.window_bytes)
    return Around(blobs, window, field.window_out.reshape(len(blobs), window.n_bytes))


def _places(files: FileSet, request: Extents, max_bytes: int) -> NDArray[np.int64] | None:
    where = (request.file, request.offset, request.length, (request.head, request.tail))
    return places(files.sizes, *where, min(max_bytes, _MOST))


def _read_much(files: FileSet, numbers: list[int], fields: list[BlobField], n_bytes: int) -> bool:
    """Read from many files, a few at a time, or many bytes, a share a thread."""
    groups = _groups(numbers)
    if len(groups) == 1:
        return _read(files, numbers, _shares(fields, min(n_threads(), n_bytes // _SHARE_BYTES)))
    return all(_read(files, group, [_of(files, group, fields, group is groups[0])]) for group in groups)


def _groups(numbers: list[int]) -> list[list[int]]:
    """Return the files of one call each: what is open at once is bounded."""
    most = max(_FEW, most_open() // 4)  # other threads borrow some as well
    return [numbers[first : first + most] for first in range(0, max(1, len(numbers)), most)]


def _read(files: FileSet, numbers: list[int], shares: list[list[BlobField]]) -> bool:
    taken = False
    try:
        fds = files.take(numbers)
        taken = True
        where, engine = (fds, files.memories, files.sizes, files.mtimes_ns), files.engine.capsule
        if len(shares) == 1:
            return read_batch(*where, shares[0], engine)
        return in_parallel(lambda part: read_batch(*where, part, engine), shares)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        return False  # the careful way opens one file at a time
    finally:
        if taken:
            files.give_back(numbers)


def _shares(fields: list[BlobField], n: int) -> list[list[BlobField]]:
    """Return the fields cut into `n` shares of about as many bytes."""
    if n < 2:
        return [fields]
    cuts = [np.searchsorted(field.place, np.arange(n + 1) * len(field.out) // n).tolist() for field in fields]
    for field, cut in zip(fields, cuts, strict=True):
        cut[0], cut[-1] = 0, len(field.length)
    return [
        [_rows(field, slice(cut[share], cut[share + 1])) for field, cut in zip(fields, cuts, strict=True)]
        for share in range(n)
    ]


def _of(files: FileSet, numbers: list[int], fields: list[BlobField], and_memory: bool) -> list[BlobField]:
    """Return the extents that lie in these files, or, if so wanted, in memory."""
    here = [np.isin(field.file, np.array(numbers, np.int32)) for field in fields]
    if and_memory:
        here = [part | (files.memories[field.file] > 0) for field, part in zip(fields, here, strict=True)]
    return [_rows(field, part) for field, part in zip(fields, here, strict=True)]


def _rows(field: BlobField, rows: slice | NDArray[np.bool_]) -> BlobField:
    return field._replace(
        file=field.file[rows],
        offset=field.offset[rows],
        length=field.length[rows],
        stored=None if field.stored is None else field.stored[rows],
        place=field.place[: len(field.length)][rows],
        window_place=None if field.window_place is None else field.window_place[rows],
    )
