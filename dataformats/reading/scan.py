"""Going through a source in steps, and which records a call means."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch, take_column
from dataformats.interfaces.source import Fields, RecordSource
from dataformats.storage.prefetch import prefetch

__all__ = ["as_indices", "as_numbers", "digest_of", "scan_by_reading", "steps", "until_failure", "within"]

_SCAN_BYTES = 4 * 2**20
_SCAN_RECORDS = 1024


def as_numbers(indices: ArrayLike | range) -> NDArray[np.int64]:
    """Return record numbers, whichever, as int64[n] that nobody else has.

    Raises:
        TypeError: Not whole numbers, or not one-dimensional.
    """
    if isinstance(indices, range) and max(map(abs, (indices.start, indices.stop, indices.step))) < 2**62:
        indices = np.arange(indices.start, indices.stop, indices.step)  # numpy would take its numbers one by one
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"expected a list of record numbers, found {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def as_indices(indices: ArrayLike | range, length: int) -> NDArray[np.int64]:
    """Return record numbers as int64[n] that nobody else has.

    Raises:
        TypeError: Not whole numbers, or not one-dimensional.
        IndexError: One is outside `[0, length)`.
    """
    return within(as_numbers(indices), indices, length)


def within(numbers: NDArray[np.int64], indices: ArrayLike | range, length: int) -> NDArray[np.int64]:
    """Return the numbers that `as_numbers` made of `indices`.

    Raises:
        IndexError: One is outside `[0, length)`.
    """
    if len(numbers) and int(numbers.view(np.uint64).max()) >= length:  # negative ones are huge
        array = np.asarray(indices)
        wrong = array[(array < 0) | (array >= length)][0]
        raise IndexError(f"record {wrong} is outside [0, {length}); negative numbers only src[-1] takes")
    return numbers


def scan_by_reading(source: RecordSource, steps: Iterator[range], fields: Fields) -> Iterator[RecordBatch]:
    """Yield all records of a source by reads of these steps, one ahead."""
    for batch in prefetch(source.read(part, fields, "omit") for part in steps):
        yield from until_failure(batch)


def steps(source: RecordSource) -> Iterator[range]:
    """Yield ranges that cover all records of a source, a few megabytes each."""
    n = len(source)
    step = max(1, min(_SCAN_RECORDS, _SCAN_BYTES * max(1, n) // max(1, source.nbytes)))
    return (range(first, min(first + step, n)) for first in range(0, n, step))


def until_failure(batch: RecordBatch) -> Iterator[RecordBatch]:
    """Yield what comes before the first failed record of a batch, then raise its error."""
    if not batch.failed:
        yield batch
        return
    first = min(batch.failed)
    keep = np.flatnonzero(batch.indices < first)
    if len(keep):
        columns = {name: take_column(column, keep) for name, column in batch.columns.items()}
        yield RecordBatch(columns, batch.indices[keep], {}, batch.single)
    raise batch.failed[first]


def digest_of(parts: Sequence[str], data: bytes = b"") -> str:
    """Return the fingerprint of something made of parts that have one."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part.encode())
    state.update(data)
    return state.hexdigest()
