"""From blobs back to records: which record a problem is of, where it lies, and what is left without it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import CodecError, FormatError, SpecError
from dataformats.interfaces import Located, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.blob_read import Fetched

__all__ = ["BlobLocations", "RecordRun", "by_record", "cut", "placed_at", "sound", "subset", "without"]


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Neighbouring sound records as they stream by: their first number, their file, where its bytes begin there."""

    first: int
    file: str
    base: int
    blobs: Blobs

    def part(self, begin: int, end: int) -> RecordRun:
        """Return the records at these positions."""
        return RecordRun(self.first + begin, self.file, self.base, self.blobs.take(slice(begin, end)))

    def place(self, position: int, field: str | None = None) -> tuple[str, int]:
        """Return the file of a record, and the byte where its blob begins."""
        return self.file, self.base + int(self.blobs.starts[position])


@dataclass(frozen=True, slots=True)
class BlobLocations:
    """Where the records of a read lie, for errors.

    Attributes:
        files: The files.
        fetched: What was read, field by field, and where it lies.
        kept: Of which positions the records are; `None`: of all.
    """

    files: Sequence[StoredFile]
    fetched: Mapping[str, tuple[Fetched, Located]]
    kept: NDArray[np.int64] | None = None

    def place(self, position: int, field: str | None = None) -> tuple[str, int]:
        """Return the file of a record's field (or of its first), and the byte where its blob begins."""
        record = position if self.kept is None else int(self.kept[position])
        _, located = self.fetched.get(field or "") or next(iter(self.fetched.values()))
        counts, extents = located.counts, located.extents
        blob = record if counts is None else int(counts[:record].sum())
        blob = min(blob, len(extents) - 1)
        return self.files[extents.file[blob]].name, int(extents.offset[blob])


def without(n: int, left_out: Mapping[int, object]) -> NDArray[np.int64]:
    """Return [0, n) without these positions."""
    keep = np.ones(n, bool)
    keep[list(left_out)] = False
    return np.flatnonzero(keep)


def by_record(fetched: Mapping[str, tuple[Fetched, Located]], numbers: NDArray[np.int64]) -> dict[int, FormatError]:
    """Return the first problem of each record: position in the batch to error."""
    found: dict[int, FormatError] = {}
    for got, where in fetched.values():
        if not got.problems:
            continue
        ends = None if where.counts is None else np.cumsum(where.counts)
        for blob, error in sorted(got.problems.items()):
            position = blob if ends is None else int(np.searchsorted(ends, blob, side="right"))
            found.setdefault(position, error.at(int(numbers[position])))
    return found


def subset(
    blobs: Blobs, counts: NDArray[np.int64] | None, kept: NDArray[np.int64], n: int
) -> tuple[Blobs, NDArray[np.int64] | None]:
    """Return the blobs of these records (positions) out of `n`."""
    if len(kept) == n:
        return blobs, counts
    if counts is None:
        return blobs.take(kept), None
    keep = np.zeros(n, bool)
    keep[kept] = True
    return blobs.take(np.flatnonzero(np.repeat(keep, counts))), counts[kept]


def sound(stretch: RecordChunk) -> Iterator[bytes]:
    """Yield the blobs of a stretch that have no problem."""
    return (stretch.blobs[i] for i in range(len(stretch.blobs)) if i not in stretch.problems)


def cut(stretch: RecordChunk, first: int, file: str) -> Iterator[tuple[RecordRun, FormatError | None]]:
    """Yield the sound runs of a stretch, each with the problem that follows it."""
    begin = 0
    for position in sorted(stretch.problems):
        problem = stretch.problems[position].at(first + position)
        yield RecordRun(first + begin, file, stretch.base, stretch.blobs.take(slice(begin, position))), problem
        begin = position + 1
    if begin < len(stretch.blobs):
        yield RecordRun(first + begin, file, stretch.base, stretch.blobs.take(slice(begin, None))), None


def placed_at(error: Exception, number: int, place: tuple[str, int]) -> Exception:
    """Return the error with the record, the file and the byte that it is about."""
    placed = copy.copy(error)
    placed.__cause__ = error.__cause__
    if isinstance(placed, FormatError):
        placed.path, placed.offset_bytes = placed.path or place[0], place[1]
    if isinstance(placed, CodecError | SpecError):
        placed.path = place[0]
    placed.index = number  # type: ignore[attr-defined]  # every error that decoding raises has one
    return placed
