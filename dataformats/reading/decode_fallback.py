"""Read record by record after a batch failed, to find which record is at fault."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, RecordBatch
from dataformats.columns.batch_decoder import DECODE_ERRORS, BatchDecoder, Mask
from dataformats.errors import CodecError, CorruptRecordError, FormatError, SpecError
from dataformats.reading.blob_locations import BlobLocations, RecordRun, positions_except, subset
from dataformats.storage.threads import for_each

OnFailure = Literal["raise", "omit", "collect"]
"""As `OnCorrupt`; `"collect"` also collects the errors of records that do not fit the spec."""

_WholeBlobs = Mapping[str, tuple[Blobs, "NDArray[np.int64] | None"]]


def decode_fetched(
    decoder: BatchDecoder, places: BlobLocations, indices: NDArray[np.int64], mask: Mask, on_failure: OnFailure
) -> RecordBatch:
    """Return the batch of the blobs that the reference path fetched, without the records that failed.

    Args:
        decoder: The decoder of the source.
        places: The blobs, and where they lie.
        indices: int64[n], of the records.
        mask: The fields.
        on_failure: How to treat records that cannot be read or decoded.

    Raises:
        FormatError: The error of the first such record, if `on_failure` is `"raise"`.
        SpecError: A record does not fit the spec.
    """
    n = len(indices)
    damaged = places.problems(indices)
    if damaged and on_failure == "raise":
        raise damaged[min(damaged)]
    if not damaged:
        return decode(decoder, places.stored(), indices, mask, on_failure, places=places)
    kept = positions_except(n, damaged)
    stored = {name: subset(*part, kept, n) for name, part in places.stored().items()}
    batch = decode(decoder, stored, indices[kept], mask, on_failure, places=places.of(kept))
    failed: dict[int, Exception] = {int(indices[row]): error for row, error in damaged.items()}
    return RecordBatch(batch.columns, batch.indices, failed | dict(batch.failed), batch.single)


def decode(
    decoder: BatchDecoder,
    stored: _WholeBlobs,
    indices: NDArray[np.int64],
    mask: Mask,
    on_failure: OnFailure,
    *,
    places: RecordRun | BlobLocations,
) -> RecordBatch:
    """Return the batch of these blobs: see `read_records`."""
    n = len(indices)

    def decoded(rows: NDArray[np.int64] | None) -> dict[str, Column]:
        chosen = stored if rows is None else {name: subset(*part, rows, n) for name, part in stored.items()}
        return decoder.decode(chosen, mask)

    def located(error: Exception, row: int) -> Exception:
        return _located(decoder, error, int(indices[row]), row, places)

    return read_records(decoded, located, indices, on_failure, single=decoder.single)


def read_records(
    read: Callable[[NDArray[np.int64] | None], dict[str, Column]],
    located: Callable[[Exception, int], Exception],
    indices: NDArray[np.int64],
    on_failure: OnFailure,
    *,
    single: bool,
) -> RecordBatch:
    """Return a batch of records. If they cannot be read together, read them one by one, to find which are at fault.

    Args:
        read: Returns the columns of these rows of the batch; `None`: of all.
        located: Returns an error with the record, the file and the byte of this row.
        indices: int64[n], of the records.
        on_failure: How to treat records that cannot be read or decoded.
        single: True if records are single values.

    Raises:
        FormatError: The error of the first such record, if `on_failure` is `"raise"`.
        SpecError: A record does not fit the spec.
    """
    n = len(indices)
    try:
        return RecordBatch(read(None), indices, {}, single)
    except DECODE_ERRORS as error:
        if not n and on_failure != "collect":
            raise
        if n == 1 and on_failure == "raise":
            raise located(error, 0) from error.__cause__
    failed: dict[int, Exception] = {}

    def check(row: int) -> None:
        try:
            read(np.array([row]))
        except DECODE_ERRORS as error:
            # A record that does not fit the spec is not corrupt: leaving it out would hide a wrong spec.
            if on_failure == "raise" or (on_failure == "omit" and isinstance(error, SpecError)):
                raise located(error, row) from error.__cause__
            failed[row] = located(error, row)

    for_each(check, n)
    failed = dict(sorted(failed.items()))
    kept = positions_except(n, failed)
    by_index = {int(indices[row]): error for row, error in failed.items()}
    # A field that does not decode at all gives no columns of no records either; a list of errors needs none.
    columns = {} if on_failure == "collect" and not len(kept) else read(kept)
    return RecordBatch(columns, indices[kept], by_index, single)


def _located(
    decoder: BatchDecoder, error: Exception, index: int, row: int, places: RecordRun | BlobLocations
) -> Exception:
    """Return the error with the record, the file and the byte that it is about."""
    path, offset = places.place(row, getattr(error, "field", None))
    if isinstance(error, CodecError) and decoder.single:
        what = f"the payload does not decode as {error.codec!r}: {error.what}"
        corrupt = CorruptRecordError(what, path=path, index=index, offset_bytes=offset)
        corrupt.__cause__ = error.__cause__
        return corrupt
    located = copy.copy(error)
    located.__cause__ = error.__cause__
    if isinstance(located, FormatError):
        located.path, located.offset_bytes = located.path or path, offset
    if isinstance(located, CodecError | SpecError):
        located.path = path
    located.index = index  # type: ignore[attr-defined]  # every error of decoding has one
    return located
