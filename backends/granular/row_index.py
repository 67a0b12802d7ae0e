"""The rows of one dataset: the records of its bags that hold the values of each row."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.bags import layout_of, limits_of
from dataformats.backends.granular.folder import ColumnFiles, DatasetFiles
from dataformats.backends.granular.layout import ENTRY_BYTES, BagLayout, Limits
from dataformats.backends.granular.refs import Refs, parse_refs
from dataformats.backends.granular.stored_types import is_sequence
from dataformats.errors import CorruptRecordError, FormatError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["RowIndex", "RowRecords"]

_PARSED_ROWS = 65_536  # parsed at once


@dataclass(frozen=True, slots=True)
class RowRecords:
    """The records of one field for some rows.

    Attributes:
        first: int64[n], the number of the first record in the field's bag.
        count: int64[n], the number of records; 1 if the field is not a sequence.
        wrong: bool[n], rows whose records are unknown; `first` and `count` are 0 there.
    """

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    wrong: NDArray[np.bool_]


class RowIndex:
    """Maps the rows of one dataset to the records of its bags; reads tables at first use. Thread-safe.

    Args:
        files: The files of the dataset.
    """

    def __init__(self, files: DatasetFiles) -> None:
        self.files = files
        self._order = list(files.spec)
        self._limits: dict[str, Limits | FormatError] = {}
        self._wrong_rows: dict[str, NDArray[np.bool_]] = {}
        self._parsed: tuple[Refs, Limits] | None = None
        self._lock = threading.RLock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    @functools.cached_property
    def generation(self) -> int:
        """The generation of the format: 1, 2 or 3."""
        return 3 if self._layout is None else self._layout.generation

    @functools.cached_property
    def n_rows(self) -> int:
        """Number of rows: in generation 3 the records of the shortest field, else the records of `refs.bag`."""
        return min(self.entries.values()) if self._layout is None else self._layout.n_records

    @functools.cached_property
    def _layout(self) -> BagLayout | None:
        """The layout of `refs.bag`, whose generation is that of the whole dataset; `None` in generation 3."""
        return None if self.files.refs is None else layout_of(self.files.refs, None)

    @property
    def entries(self) -> dict[str, int]:
        """The number of records in each field's index, in generation 3."""
        return {name: _entries(column) for name, column in self.files.columns.items()}

    def limits(self, field: str) -> Limits | FormatError:
        """Return the limits of a field's bag, or the error that hides them."""
        with self._lock:
            if field not in self._limits:
                column = self.files.columns[field]
                try:
                    self._limits[field] = limits_of(column.bag, column.idx)
                except FormatError as error:
                    self._limits[field] = error
            return self._limits[field]

    def records(self, field: str, rows: NDArray[np.int64]) -> RowRecords:
        """Return the records of one field for these rows, in this order."""
        if self.files.refs is None:
            return RowRecords(rows, np.ones(len(rows), np.int64), np.zeros(len(rows), bool))
        refs, _ = self._refs
        number, wrong = self._order.index(field), self._wrong(field)[rows]
        first, count = refs.first[number][rows], refs.counts(number)[rows]
        return RowRecords(np.where(wrong, 0, first), np.where(wrong, 0, count), wrong)

    def problem(self, field: str, row: int) -> FormatError:
        """Return the error of a row that `records` calls wrong."""
        refs, limits = self._refs
        if refs.wrong[row]:
            if not limits.believed[row] or (row and not limits.believed[row - 1]):
                return limits.problem(row)
            return self._refs_error(row, "a row of refs.bag does not parse", f"a msgpack list of {len(self._order)}")
        column, number = self.limits(field), self._order.index(field)
        if isinstance(column, FormatError):
            return column
        first, count = int(refs.first[number][row]), int(refs.counts(number)[row])
        inside = first <= len(column) and count <= len(column) - first
        what = "belong to another row already" if inside else f"are not in {self.files.columns[field].bag.basename}"
        return self._refs_error(
            row, f"the records of field {field!r} {what}", f"records of [0, {len(column)})", f"{count} from {first} on"
        )

    def _refs_error(self, row: int, what: str, expected: str, found: str | None = None) -> FormatError:
        _, limits = self._refs
        offset, length, _ = limits.extents(np.array([row]))
        assert self.files.refs is not None  # only rows that refs.bag describes can be wrong; for the type checker
        data = self.files.refs.pread(int(offset[0]), min(int(length[0]), 16))
        return CorruptRecordError(
            what,
            path=self.files.refs.name,
            offset_bytes=int(offset[0]),
            expected=expected,
            found=data.hex(" ") if found is None else found,
        )

    def _wrong(self, field: str) -> NDArray[np.bool_]:
        """Return bool[rows]: rows whose records of a field are unknown or missing."""
        with self._lock:
            if field not in self._wrong_rows:
                self._wrong_rows[field] = self._find_wrong(field)
            return self._wrong_rows[field]

    def _find_wrong(self, field: str) -> NDArray[np.bool_]:
        refs, _ = self._refs
        number, column = self._order.index(field), self.limits(field)
        first, count = refs.first[number], refs.counts(number)
        if isinstance(column, FormatError):
            return refs.wrong | (count > 0)
        n = len(column)
        wrong = refs.wrong | (first > n) | (count > n - np.minimum(first, n))
        return wrong | _overlapping(first, count, wrong, n) if is_sequence(self.files.spec[field]) else wrong

    @property
    def _refs(self) -> tuple[Refs, Limits]:
        with self._lock:
            if self._parsed is None:
                self._parsed = self._parse_refs()
            return self._parsed

    def _parse_refs(self) -> tuple[Refs, Limits]:
        file = self.files.refs
        assert file is not None  # called for generations 1 and 2 alone; for the type checker
        limits = limits_of(file, None)
        sequences = [is_sequence(kind) for kind in self.files.spec.values()]
        begins = range(0, max(1, len(limits)), _PARSED_ROWS)
        parts = [_parse(file, limits, range(at, min(at + _PARSED_ROWS, len(limits))), sequences) for at in begins]
        file.release()
        return Refs.join(parts), limits


def _parse(file: StoredFile, limits: Limits, part: range, sequences: list[bool]) -> Refs:
    offset, length, wrong = limits.extents(np.arange(part.start, part.stop))
    sound = ~wrong
    begin = int(offset[sound].min(initial=2**62))
    data = file.pread(begin, int((offset + length)[sound].max(initial=0)) - begin) if sound.any() else b""
    start = np.where(wrong, -1, offset - begin)
    return parse_refs(data, start, start + length, sequences)


def _overlapping(
    first: NDArray[np.int64], count: NDArray[np.int64], wrong: NDArray[np.bool_], n: int
) -> NDArray[np.bool_]:
    """Return bool[rows]: sequences that share elements with one of a row before.

    No writer makes them, and with them a small file could ask for any number of elements.
    """
    counts = np.where(wrong, 0, count)
    if int(counts.astype(np.float64).sum()) <= n:
        return np.zeros(len(first), bool)
    reached = np.maximum.accumulate(np.where(counts > 0, first + counts, 0))
    before = np.concatenate([np.zeros(1, np.int64), reached[:-1]])
    shared: NDArray[np.bool_] = (counts > 0) & (first < before)
    return shared


def _entries(column: ColumnFiles) -> int:
    assert column.idx is not None  # generation 3; for the type checker
    return column.idx.size // ENTRY_BYTES
