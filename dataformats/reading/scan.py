"""Check indices, and read a source sequentially in steps."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch, take_column
from dataformats.errors import DataFormatsError
from dataformats.storage.one_ahead import prefetch

if TYPE_CHECKING:
    from dataformats.interfaces.record_source import Fields, RecordSource
    from dataformats.interfaces.source_facts import Origin

T = TypeVar("T")
Records = TypeVar("Records", range, NDArray[np.int64], "range | NDArray[np.int64]")

_SCAN_BYTES = 4 * 2**20
_MAX_BYTES = 32 * 2**20  # far more than steps aim at: only overlapping or very uneven records come to that
_SCAN_RECORDS = 1024


def as_numbers(indices: ArrayLike | range) -> NDArray[np.int64]:
    """Convert indices to a new int64[n] array; does not check bounds.

    Raises:
        TypeError: Not integers, or not one-dimensional.
    """
    if isinstance(indices, range) and max(map(abs, (indices.start, indices.stop, indices.step))) < 2**62:
        # asarray would convert items one by one
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"expected a list of indices, found {_found(indices, array)}")
    return array.astype(np.int64)


def _found(indices: object, array: NDArray[np.generic]) -> str:
    if isinstance(indices, slice):
        return f"{indices}: source[{_colons(indices)}] is a view of these records"
    if isinstance(indices, str):
        return f"{indices!r}: the names of fields come second, as in read(range(len(source)), [{indices!r}])"
    if array.ndim == 0 and array.dtype.kind in "iu":
        return f"{indices}: source[{indices}] is one record, source[:{indices}] a view of the first ones"
    more = ": source.where(mask) takes a mask" if array.dtype.kind == "b" else ""
    return f"{array.dtype} of shape {array.shape}{more}"


def _colons(part: slice) -> str:
    ends = (part.start, part.stop) if part.step is None else (part.start, part.stop, part.step)
    return ":".join("" if end is None else str(end) for end in ends)


def as_indices(indices: ArrayLike | range, length: int) -> NDArray[np.int64]:
    """Convert indices to a new int64[n] array.

    Raises:
        TypeError: Not integers, or not one-dimensional.
        IndexError: An index is out of range `[0, length)`.
    """
    return check_bounds(as_numbers(indices), indices, length)


def check_bounds(numbers: NDArray[np.int64], indices: ArrayLike | range, length: int) -> NDArray[np.int64]:
    """Return `numbers`, which `as_numbers` made of `indices`, after a check of their bounds.

    Raises:
        IndexError: An index is out of range `[0, length)`.
    """
    if len(numbers) and int(numbers.view(np.uint64).max()) >= length:  # negative indices are huge as uint64
        array = np.asarray(indices)
        wrong = array[(array < 0) | (array >= length)][0]
        note = "; read() does not accept negative indices" if wrong < 0 else ""
        raise IndexError(f"index {wrong} is out of range for {length} records{note}")
    return numbers


def scan_by_reading(
    source: RecordSource, fields: Fields, parts: Iterable[range] | None = None
) -> Iterator[RecordBatch]:
    """Yield all records of a source: read these parts, one part ahead; every record before an error is yielded."""
    parts = steps(source) if parts is None else parts
    for batch in prefetch(read_parts(lambda part: source.read(part, fields, "omit"), parts)):
        yield from until_failure(batch)


def scan_sound(
    source: RecordSource,
    parts: Iterable[range | NDArray[np.int64]] | None,
    fields: Fields,
    failed: Callable[[int, Exception], object] | None,
) -> Iterator[RecordBatch]:
    """Yield these parts of a source, read one step ahead, without the records that `read` refuses.

    Args:
        source: The records.
        parts: The numbers of the records; `None` is all, read without an index up to the first one that is refused.
        fields: See `RecordSource.read`.
        failed: Called with number and error of each record that is left out, before its batch is yielded. `None` raises
            the first error, after the records before it.
    """
    if parts is None:
        parts = yield from scan_to_error(source, fields, () if failed is None else DataFormatsError)
    for batch in prefetch(itertools.chain.from_iterable(_read_sound(source, part, fields) for part in parts)):
        if failed is None:
            yield from until_failure(batch)
            continue
        for number in sorted(batch.failed):
            failed(number, batch.failed[number])
        if len(batch):
            yield batch


def scan_to_error(
    source: RecordSource, fields: Fields, errors: type[Exception] | tuple[type[Exception], ...]
) -> Generator[RecordBatch, None, Iterator[range]]:
    """Yield all records by the fastest scan, up to the first one of these errors; return the parts that remain."""
    done = 0
    try:
        for batch in source.scan(fields):
            yield batch
            done += len(batch)
    except errors:
        return split_by_bytes(source, range(done, len(source)))
    return iter(())


def _read_sound(source: RecordSource, part: range | NDArray[np.int64], fields: Fields) -> Iterator[RecordBatch]:
    """Yield these records in batches; those that do not fit the spec are in `failed`, too."""
    try:
        yield source.read(part, fields, "omit")
    except DataFormatsError as error:
        half = len(part) // 2
        if half:
            yield from _read_sound(source, part[:half], fields)
            yield from _read_sound(source, part[half:], fields)
        else:
            yield RecordBatch({}, np.zeros(0, np.int64), {int(part[0]): error})


def read_parts(read: Callable[[range], T], parts: Iterable[range]) -> Iterator[T]:
    """Yield `read(part)` for each part. If that raises, its records are read one by one, up to the one that raises."""
    for part in parts:
        try:
            found = read(part)
        except Exception:
            if len(part) == 1:
                raise
            for number in part:
                yield read(range(number, number + 1))
        else:
            yield found


def steps(source: RecordSource) -> Iterator[range]:
    """Yield ranges that cover all records, a few megabytes each, and each within one block of a table."""
    starts = None if source.facts.is_compressed else source.block_starts
    if starts is None or not len(starts):
        yield from split_by_bytes(source, range(len(source)))
        return
    most = max(1, int(_SCAN_BYTES / max(1.0, source.record_bytes())))
    for start, end in itertools.pairwise([*starts.tolist(), len(source)]):
        yield from (range(first, min(first + most, end)) for first in range(start, end, most))


def split_by_bytes(source: RecordSource, records: Records) -> Iterator[Records]:
    """Yield consecutive parts of these records, a few megabytes each, so that the memory of a read is bounded."""
    step = max(1, min(_SCAN_RECORDS, int(_SCAN_BYTES / max(1.0, source.record_bytes()))))
    waiting = [records[first : first + step] for first in range(0, len(records), step)][::-1]
    while waiting:
        part = waiting.pop()
        if len(part) > 1 and len(part) * source.record_bytes(part) > _MAX_BYTES:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
        else:
            yield part


def until_failure(batch: RecordBatch) -> Iterator[RecordBatch]:
    """Yield the records before the first failed record of a batch, then raise its error."""
    if not batch.failed:
        yield batch
        return
    first = min(batch.failed)
    keep = np.flatnonzero(batch.indices < first)
    if len(keep):
        columns = {name: take_column(column, keep) for name, column in batch.columns.items()}
        yield RecordBatch(columns, batch.indices[keep], {}, batch.single)
    raise batch.failed[first]


def describe_record(origin: Origin) -> str:
    """Return the name of a record, with its file if that is known: `"record 17 of 'a.tfrecord'"`."""
    return f"record {origin.index} of {origin.path!r}" if origin.path else f"record {origin.index}"


def digest_of(parts: Sequence[str], data: bytes = b"") -> str:
    """Return the fingerprint of a source made of sources with these fingerprints."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part.encode())
    state.update(data)
    return state.hexdigest()
