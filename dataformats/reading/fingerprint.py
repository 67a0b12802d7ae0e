"""The fingerprint of files: format, counts, sizes, all lengths and checksums, and the bytes of some records.

A sampled record is digested whole, unless it has more than 1 MiB in one field: then the lengths of the blobs of that
field are, the beginning of the first and the end of the last. So a fingerprint takes little memory and time, however
long the records are.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces import Extents, Located
from dataformats.reading.blob_reader import BlobReader
from dataformats.storage.reference_read import readable_lengths

_RECORDS = 64
_WHOLE_BYTES = 2**20  # a field of a record up to this size is read whole
_PIECE_BYTES = 2**16  # read at the beginning and at the end of a larger one
_READ_BYTES = 2**24  # read at once


def files_fingerprint(format: str, blobs: BlobReader) -> str:
    """Return the fingerprint of the records of files.

    Args:
        format: Its name.
        blobs: Reads the files.
    """
    reader = blobs.reader
    counts = reader.counts
    state = hashlib.blake2b(digest_size=16)
    state.update(repr((format, counts.tolist(), [file.stored_size for file in reader.files])).encode())
    reader.digest(state.update)
    n = int(counts.sum())
    n_digested = min(n, _RECORDS)
    records = np.arange(n_digested) * n // max(1, n_digested)
    for part in _samples(blobs, blobs.locate(records, blobs.fields)):
        state.update(part)
    return state.hexdigest()


def _samples(blobs: BlobReader, located: Mapping[str, Located]) -> Iterator[bytes]:
    """Yield the bytes to digest of these records, field by field; reads a bounded part of them at a time."""
    waiting: list[tuple[bytes, Extents]] = []
    n_bytes = 0
    for name, one in located.items():
        for begin, extents in _parts(blobs, name, one):
            size = int(np.maximum(extents.length, 0).sum())
            if waiting and n_bytes + size > _READ_BYTES:
                yield from _digested(blobs, waiting)
                waiting, n_bytes = [], 0
            waiting.append((begin, extents))
            n_bytes += size
    yield from _digested(blobs, waiting)


def _digested(blobs: BlobReader, parts: Sequence[tuple[bytes, Extents]]) -> Iterator[bytes]:
    fetched = blobs.fetch_located({str(number): Located(extents) for number, (_, extents) in enumerate(parts)})
    for (begin, _), each in zip(parts, fetched.values(), strict=True):
        yield begin
        for position, blob in enumerate(each.blobs):
            yield b"!" if position in each.problems else len(blob).to_bytes(8, "little") + blob


def _parts(blobs: BlobReader, name: str, located: Located) -> Iterator[tuple[bytes, Extents]]:
    """Yield the extents of a field that are read, long records alone, and the bytes to digest before each."""
    extents, begin = located.extents, name.encode()
    length = readable_lengths(blobs.files, extents)
    counts = np.ones(len(extents), np.int64) if located.counts is None else located.counts
    ends = np.cumsum(counts)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    is_long = sums[ends] - sums[ends - counts] > _WHOLE_BYTES
    # Records are joined up to the next long one, and up to _READ_BYTES.
    cuts = np.flatnonzero(is_long[1:] | is_long[:-1] | (np.diff(sums[ends] // (_READ_BYTES // 2)) > 0))
    for first, stop in itertools.pairwise([0, *ends[cuts].tolist(), len(extents)]):
        here = slice(first, stop)
        is_range = extents.fetch is None  # the others are read whole
        if is_range and sums[stop] - sums[first] > _WHOLE_BYTES and is_long[np.searchsorted(ends, first, side="right")]:
            begin += length[here].astype("<i8").tobytes()
            yield begin, _pieces(extents, first + np.flatnonzero(length[here]))
        else:
            yield begin, _part(extents, here)
        begin = b""


def _pieces(extents: Extents, readable: NDArray[np.int64]) -> Extents:
    """Return the beginning of the first of these blobs, and the end of the last one."""
    ends = readable[[0, -1]]
    length = np.minimum(extents.length[ends], _PIECE_BYTES)
    offset = extents.offset[ends] + np.array([0, extents.length[ends[1]] - length[1]])
    return Extents(extents.file[ends], offset, length)


def _part(extents: Extents, here: slice) -> Extents:
    return replace(
        extents,
        file=extents.file[here],
        offset=extents.offset[here],
        length=extents.length[here],
        stored=None if extents.stored is None else extents.stored[here],
        problems={at - here.start: error for at, error in extents.problems.items() if here.start <= at < here.stop},
    )
