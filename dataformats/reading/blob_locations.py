"""Map blobs back to records: the record of a problem, its place in a file, and the records without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import BlobStarts, Located, RecordChunk
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.reference_read import Fetched


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Consecutive sound records of one file.

    Attributes:
        first: The index of the first record.
        file: The file's name.
        base: Where in the file the buffer of the blobs begins.
        blobs: The records.
    """

    first: int
    file: str
    base: int
    blobs: Blobs

    def part(self, begin: int, end: int) -> RecordRun:
        """Return the records in these rows."""
        return RecordRun(self.first + begin, self.file, self.base, self.blobs.take(slice(begin, end)))

    def place(self, row: int, field: str | None = None) -> tuple[str, int]:
        """Return the file of a record, and the byte at which its blob begins."""
        return self.file, self.base + int(self.blobs.starts[row])


@dataclass(frozen=True, slots=True)
class BlobLocations:
    """The blobs of a read, and where they lie.

    Attributes:
        files: The files.
        located: Field to extents.
        fetched: Field to blobs.
        kept: The rows of the records that are left; `None`: all.
    """

    files: Sequence[StoredFile]
    located: Mapping[str, Located]
    fetched: Mapping[str, Fetched]
    kept: NDArray[np.int64] | None = None

    def of(self, kept: NDArray[np.int64]) -> BlobLocations:
        """Return the places of the records in these rows."""
        return replace(self, kept=kept)

    def stored(self) -> dict[str, tuple[Blobs, NDArray[np.int64] | None]]:
        """Return the blobs of each field of all records, and how many each record has."""
        return {name: (one.blobs, self.located[name].counts) for name, one in self.fetched.items()}

    def problems(self, indices: NDArray[np.int64]) -> dict[int, FormatError]:
        """Return the first problem of each record: row of the batch to error."""
        found: dict[int, FormatError] = {}
        for name, fetched in self.fetched.items():
            if not fetched.problems:
                continue
            counts = self.located[name].counts
            ends = None if counts is None else np.cumsum(counts)
            for blob, error in sorted(fetched.problems.items()):
                row = blob if ends is None else int(np.searchsorted(ends, blob, side="right"))
                found.setdefault(row, error.at(int(indices[row])))
        return found

    def place(self, row: int, field: str | None = None) -> tuple[str, int | None]:
        """Return the file of a record's field (or of its first), and the byte at which its blob begins, if known."""
        record = row if self.kept is None else int(self.kept[row])
        first = self.located.get(field or "")
        for located in self.located.values() if first is None else (first, *self.located.values()):
            counts, extents = located.counts, located.extents
            blob = record if counts is None else min(int(counts[:record].sum()), len(extents) - 1)
            if blob >= 0:  # no record has the field
                break
        else:
            return self.files[0].name, 0
        offset = int(extents.offset[blob]) if extents.fetch is None else None
        return self.files[extents.file[blob]].name, offset


def blob_starts(files: Sequence[StoredFile], located: Mapping[str, Located]) -> Iterator[BlobStarts]:
    """Yield where records that were located begin in each file, for each field."""
    for one in located.values():
        extents, counts = one.extents, one.counts
        if extents.fetch is not None:
            continue
        rows = np.arange(len(extents)) if counts is None else np.flatnonzero(counts)
        blobs = rows if counts is None else (np.cumsum(counts) - counts)[rows]
        order = np.argsort(extents.file[blobs], kind="stable")
        changes = np.flatnonzero(np.diff(extents.file[blobs][order])) + 1
        for here in np.split(order, changes) if len(order) else ():
            first = blobs[here]
            yield BlobStarts(files[int(extents.file[first[0]])], rows[here], extents.offset[first] - extents.head)


def positions_except(n: int, left_out: Mapping[int, object]) -> NDArray[np.int64]:
    """Return [0, n) without these rows."""
    keep = np.ones(n, bool)
    keep[list(left_out)] = False
    return np.flatnonzero(keep)


def subset(
    blobs: Blobs, counts: NDArray[np.int64] | None, kept: NDArray[np.int64], n: int
) -> tuple[Blobs, NDArray[np.int64] | None]:
    """Return the blobs of these records (rows) out of `n`."""
    if len(kept) == n:
        return blobs, counts
    if counts is None:
        return blobs.take(kept), None
    keep = np.zeros(n, bool)
    keep[kept] = True
    return blobs.take(np.flatnonzero(np.repeat(keep, counts))), counts[kept]


def split_at_problems(chunk: RecordChunk, first: int, file: str) -> Iterator[tuple[RecordRun, FormatError | None]]:
    """Yield the sound runs of a chunk, each with the problem that follows it."""
    begin = 0
    for row in sorted(chunk.problems):
        problem = chunk.problems[row].at(first + row)
        yield RecordRun(first + begin, file, chunk.base, chunk.blobs.take(slice(begin, row))), problem
        begin = row + 1
    if begin < len(chunk.blobs):
        yield RecordRun(first + begin, file, chunk.base, chunk.blobs.take(slice(begin, None))), None
