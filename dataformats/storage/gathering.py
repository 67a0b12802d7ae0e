"""The blobs of many extents by one native call: located, read, verified and laid back to back.

It gives all or nothing. Where anything is wrong, `storage.reading` goes the careful way, which is this one's twin and
says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.interfaces import Extents, KernelCheck
from dataformats.kernels import MAX_FRAMING, BlobField, FrameCheck, buffers, places, read_batch, reads_batches
from dataformats.storage.files import most_open
from dataformats.storage.fileset import FileSet
from dataformats.storage.threads import N_THREADS, in_parallel

__all__ = ["gather"]

_MOST = 2**62
_SHARE_BYTES = 2 * 2**20  # handing work to a thread costs as much as copying some hundred kilobytes
_FEW = 8  # files: so many may be open in any process


def gather(files: FileSet, requests: Sequence[Extents], max_bytes: int) -> list[Blobs] | None:
    """Return the blobs of each request, or `None` where they have to be read the careful way.

    Args:
        files: What the extents' file numbers mean.
        requests: Extents, one for each field, say.
        max_bytes: A longer blob is not read.
    """
    if not (files.gathers and reads_batches()):
        return None
    checks = [_kernel_of(request) for request in requests]
    if None in checks:
        return None
    numbers = files.used([request.file for request in requests])
    fields: list[BlobField] = []
    for request, check in zip(requests, checks, strict=True):
        framing = (request.head, request.tail)
        offsets = places(files.sizes, request.file, request.offset, request.length, framing, min(max_bytes, _MOST))
        if offsets is None or check is None:
            return None
        out = buffers.empty(int(offsets[-1]))
        where = (request.file, request.offset, request.length, request.stored, offsets, out)
        fields.append(BlobField(*where, *framing, check))
    groups = _groups(numbers)
    if not all(_read(files, group, fields if len(groups) == 1 else _of(files, group, fields)) for group in groups):
        return None
    return [Blobs(field.out, field.place[:-1], field.length, field.place) for field in fields]


def _kernel_of(request: Extents) -> FrameCheck | None:
    """Return the kernel's check that does what the request's does; `None` where there is none."""
    if request.problems or max(request.head, request.tail) > MAX_FRAMING:
        return None
    if request.check is None:
        return FrameCheck.NOTHING
    return request.check.kernel if isinstance(request.check, KernelCheck) else None


def _groups(numbers: list[int]) -> list[list[int]]:
    """Return the files of one call each: what is open at once is bounded."""
    if len(numbers) <= _FEW:
        return [numbers]
    most = most_open()
    return [numbers[first : first + most] for first in range(0, len(numbers), most)]


def _read(files: FileSet, numbers: list[int], fields: list[BlobField]) -> bool:
    where = (files.take(numbers), files.memories, files.sizes, files.mtimes_ns)
    how = {"engine": files.engine.capsule, "warm_first": files.engine.name == "auto"}
    try:
        return in_parallel(lambda part: read_batch(*where, part, **how), _shares(fields))
    finally:
        files.give_back(numbers)


def _shares(fields: list[BlobField]) -> list[list[BlobField]]:
    """Return the fields cut into shares of about as many bytes: one where they are too few to be worth a thread."""
    n_bytes = sum(len(field.out) for field in fields)
    n = min(N_THREADS, n_bytes // _SHARE_BYTES)
    if n < 2:
        return [fields]
    cuts = [np.searchsorted(field.place, np.arange(n + 1) * len(field.out) // n).tolist() for field in fields]
    for field, cut in zip(fields, cuts, strict=True):
        cut[0], cut[-1] = 0, len(field.length)
    return [
        [_rows(field, slice(cut[share], cut[share + 1])) for field, cut in zip(fields, cuts, strict=True)]
        for share in range(n)
    ]


def _of(files: FileSet, numbers: list[int], fields: list[BlobField]) -> list[BlobField]:
    """Return the extents that lie in these files, or in memory."""
    here = [np.isin(field.file, np.array(numbers, np.int32)) | (files.memories[field.file] > 0) for field in fields]
    return [_rows(field, part) for field, part in zip(fields, here, strict=True)]


def _rows(field: BlobField, rows: slice | NDArray[np.bool_]) -> BlobField:
    return field._replace(
        file=field.file[rows],
        offset=field.offset[rows],
        length=field.length[rows],
        stored=None if field.stored is None else field.stored[rows],
        place=field.place[: len(field.length)][rows],
    )
