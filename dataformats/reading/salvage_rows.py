"""Reads the records of a damaged dataset through its reader: sound ones as stored, the others as losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces import Located, Loss, Reader, SalvagePart, ShardSalvage, StoredRecord
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.blob_reader import BlobReader
from dataformats.spec import VALUE
from dataformats.storage.reference_read import Fetched, readable_lengths
from dataformats.storage.spliced_file import SplicedFile

_STEP_RECORDS = 1024
_STEP_BYTES = 32 * 2**20
_ANY_BYTES = 2**62  # the reader compares every length with the file


def salvage_rows(reader: Reader, n_rows: int, wrong: Mapping[int, str] | None = None) -> Iterator[SalvagePart]:
    """Yield the first `n_rows` records of a reader of fields, as stored, and a loss for each damaged one.

    Args:
        reader: The reader.
        n_rows: How many records to read.
        wrong: Records that are known to be damaged, with the cause.
    """
    known, is_numbered = wrong or {}, True
    for part, located, fetched in _steps(reader, n_rows):
        counts = {name: one.counts for name, one in located.items()}
        ends = {name: range(1, len(part) + 1) if n is None else np.cumsum(n).tolist() for name, n in counts.items()}
        blobs = {name: list(one.blobs) for name, one in fetched.items()}
        problems = _problems(fetched, ends)
        rows: list[StoredRecord] = []
        for row, index in enumerate(part):
            if index in known:
                yield from _taken(rows)
                yield Loss(reader.files[0].name, known[index], index=index if is_numbered else None, records=1)
            elif row in problems:
                yield from _taken(rows)
                field, error = problems[row]
                path, number = error.path or reader.files[0].name, index if is_numbered else None
                if error.lost_bytes is None:
                    yield Loss(path, f"field {field!r}: {error.what}", index=number, records=1)
                else:
                    yield Loss(path, error.what, error.lost_bytes.start, error.lost_bytes.stop, number)
                    is_numbered = False
            else:
                starts = {name: end[row - 1] if row else 0 for name, end in ends.items()}
                rows.append({name: found[starts[name] : ends[name][row]] for name, found in blobs.items()})
        yield from _taken(rows)


def salvage_blobs(reader: Reader, n_records: int, size: int) -> Iterator[SalvagePart]:
    """Yield the first `n_records` records of a reader of one file with one blob a record, and the losses.

    A record whose place is unknown is lost with all bytes between its neighbors.

    Args:
        reader: The reader.
        n_records: How many records to read.
        size: Where in the file the data end.
    """
    file = reader.files[0]
    unknown, end, is_numbered = Loss(file.name, "", records=0), 0, True
    for part, located, fetched in _steps(reader, n_records):
        extents, problems = located[VALUE].extents, fetched[VALUE].problems
        kept: list[StoredRecord] = []
        for row, (index, blob) in enumerate(zip(part, fetched[VALUE].blobs, strict=True)):
            start, length = int(extents.offset[row]), int(extents.length[row])
            error = problems.get(row)
            if error is not None:
                yield from _taken(kept)
            if error is not None and (row in extents.problems or not end <= start <= size):
                number = index if is_numbered else None
                first = unknown if unknown.records else Loss(file.name, error.what, end, end, number, 0)
                unknown = replace(first, records=(first.records or 0) + 1)
                continue
            if unknown.records:
                yield replace(unknown, stop=start)
                unknown = replace(unknown, records=0)
            end = min(start + length, size)
            if error is None:
                kept.append(blob)
            else:
                is_one = not any(bad.start < end and start < bad.stop for bad, _ in file.damaged_ranges())
                yield Loss(file.name, error.what, start, end, index if is_numbered else None, 1 if is_one else None)
                is_numbered &= is_one
        yield from _taken(kept)
    if unknown.records:
        yield replace(unknown, stop=size)


def salvage_spliced(
    file: StoredFile,
    pieces: Sequence[bytes | range],
    salvage: Callable[[StoredFile], ShardSalvage],
    note: str,
    cause: str,
    *,
    index: int | None = None,
    n_lost: int = 0,
) -> ShardSalvage:
    """Salvage a file whose headers or tables are replaced; losses have their places in the file itself.

    Args:
        file: The damaged file.
        pieces: What the sound file consists of: bytes, and ranges of the damaged one.
        salvage: Finds the sound records of the sound file.
        note: What is replaced, and why.
        cause: Why the bytes behind the last range are lost.
        index: The number of the first record there.
        n_lost: How many records are known to be lost there; 0 if that is unknown, perhaps none.
    """
    sound = SplicedFile(file, pieces)
    found = salvage(sound)
    end = max(piece.stop for piece in pieces if isinstance(piece, range))

    def parts() -> Iterator[SalvagePart]:
        for part in found.parts:
            if isinstance(part, Loss) and part.start is not None and part.stop is not None:
                start = sound.origin(part.start)
                yield replace(part, start=start, stop=start + part.stop - part.start)
            else:
                yield part
        if end < file.size or n_lost:
            yield Loss(file.name, cause, end, max(end, file.size), index, n_lost or None)

    return replace(found, parts=parts(), notes=[*found.notes, f"{file.name}: {note}"])


def misplaced(offset: NDArray[np.int64], length: NDArray[np.int64], end: int) -> NDArray[np.bool_]:
    """Return bool[n], the blobs whose offset or length is wrong, because they should lie one behind another.

    Each offset is what the lengths before it add up to, and the same number. A blob is sound if a later one, or the
    end, has that number as well: a wrong offset changes it once, a wrong length for all blobs behind.

    Args:
        offset: int64[n], where each blob begins.
        length: int64[n], its bytes.
        end: Where the last one ends.
    """
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    _, number = np.unique(np.append(offset, end) - before, return_inverse=True)
    last = np.zeros(int(number.max()) + 1, np.int64)
    last[number] = np.arange(len(number))
    wrong = np.asarray(last[number] == np.arange(len(number)))[:-1]
    return wrong if 2 * np.count_nonzero(wrong) <= len(wrong) else np.zeros(len(wrong), np.bool_)  # there are gaps


def _steps(reader: Reader, n_records: int) -> Iterator[tuple[range, Mapping[str, Located], Mapping[str, Fetched]]]:
    """Yield parts of the records with their extents and blobs, some megabytes each."""
    blobs = BlobReader(reader, "auto", None, _ANY_BYTES)
    waiting = [range(at, min(at + _STEP_RECORDS, n_records)) for at in range(0, n_records, _STEP_RECORDS)][::-1]
    while waiting:
        part = waiting.pop()
        located = reader.locate(np.arange(part.start, part.stop), blobs.fields)
        n_bytes = sum(int(readable_lengths(reader.files, one.extents).sum()) for one in located.values())
        if n_bytes > _STEP_BYTES and len(part) > 1:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
        else:
            yield part, located, blobs.fetch_located(located)


def _problems(
    fetched: Mapping[str, Fetched], ends: Mapping[str, range | list[int]]
) -> dict[int, tuple[str, FormatError]]:
    """Return the field and the error of each row with a blob that cannot be read; the first field's counts."""
    found: dict[int, tuple[str, FormatError]] = {}
    for name, one in fetched.items():
        rows = np.searchsorted(np.asarray(ends[name]), list(one.problems), side="right")
        for row, error in zip(rows.tolist(), one.problems.values(), strict=True):
            found.setdefault(row, (name, error))
    return found


def _taken(records: list[StoredRecord]) -> Iterator[list[StoredRecord]]:
    """Yield the records, if there are any, and clear the list."""
    if records:
        yield records.copy()
        records.clear()
