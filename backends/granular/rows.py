"""The rows of one data set: which record of which bag holds each value."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.bags import layout_of, limits_of
from dataformats.backends.granular.folder import ColumnFiles, DataSetFiles
from dataformats.backends.granular.limits import ENTRY_BYTES, Layout, Limits
from dataformats.backends.granular.refs import Refs, parse_refs
from dataformats.backends.granular.stored_types import is_sequence
from dataformats.errors import CorruptRecordError, FormatError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["Rows", "Table"]

_ROWS = 65_536  # parsed at once


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of one field for some rows.

    Attributes:
        first: int64[n], the number of the first record in the field's bag.
        count: int64[n], how many; 1 where the field is no sequence.
        wrong: bool[n], rows whose records are not known; first and count are 0 there.
    """

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    wrong: NDArray[np.bool_]


class Table:
    """One data set, its tables read at first use. Thread-safe.

    Args:
        files: Of the data set.
    """

    def __init__(self, files: DataSetFiles) -> None:
        self.files = files
        self._order = list(files.spec)
        self._limits: dict[str, Limits | FormatError] = {}
        self._unknown: dict[str, NDArray[np.bool_]] = {}
        self._parsed: tuple[Refs, Limits] | None = None
        self._lock = threading.RLock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    @functools.cached_property
    def generation(self) -> int:
        """Which generation wrote it."""
        return 3 if self._layout is None else self._layout.generation

    @functools.cached_property
    def n_rows(self) -> int:
        """How many rows there are: in generation 3 as many as every field has, else what `refs.bag` says."""
        return min(self.entries.values()) if self._layout is None else self._layout.n_records

    @functools.cached_property
    def _layout(self) -> Layout | None:
        """That of `refs.bag`, which goes for the whole data set; `None` where there is none."""
        return None if self.files.refs is None else layout_of(self.files.refs, None)

    @property
    def entries(self) -> dict[str, int]:
        """The records of each field's index, in generation 3."""
        return {name: _entries(column) for name, column in self.files.columns.items()}

    def limits(self, field: str) -> Limits | FormatError:
        """Return the limits of a field's bag, or why there are none."""
        with self._lock:
            if field not in self._limits:
                column = self.files.columns[field]
                try:
                    self._limits[field] = limits_of(column.bag, column.idx)
                except FormatError as error:
                    self._limits[field] = error
            return self._limits[field]

    def rows(self, field: str, numbers: NDArray[np.int64]) -> Rows:
        """Return the records of these rows, in this order."""
        if self.files.refs is None:
            return Rows(numbers, np.ones(len(numbers), np.int64), np.zeros(len(numbers), bool))
        refs, _ = self._refs
        number, wrong = self._order.index(field), self._wrong(field)[numbers]
        first, count = refs.first[number][numbers], refs.counts(number)[numbers]
        return Rows(np.where(wrong, 0, first), np.where(wrong, 0, count), wrong)

    def problem(self, field: str, row: int) -> FormatError:
        """Return what is wrong with a row that `rows` calls wrong."""
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
        """Return bool[rows]: those whose records of a field are not known, or not there."""
        with self._lock:
            if field not in self._unknown:
                self._unknown[field] = self._find_unknown(field)
            return self._unknown[field]

    def _find_unknown(self, field: str) -> NDArray[np.bool_]:
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
        assert file is not None  # asked of generations 1 and 2 alone; for the type checker
        limits = limits_of(file, None)
        sequences = [is_sequence(kind) for kind in self.files.spec.values()]
        parts = [_parse(file, limits, range(at, min(at + _ROWS, len(limits))), sequences) for at in _begins(limits)]
        file.release()
        return Refs.join(parts), limits


def _begins(limits: Limits) -> range:
    return range(0, max(1, len(limits)), _ROWS)


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

    No writer makes them, and a small file could ask for any number of elements with them.
    """
    mine = np.where(wrong, 0, count)
    if int(mine.astype(np.float64).sum()) <= n:
        return np.zeros(len(first), bool)
    reached = np.maximum.accumulate(np.where(mine > 0, first + mine, 0))
    before = np.concatenate([np.zeros(1, np.int64), reached[:-1]])
    shared: NDArray[np.bool_] = (mine > 0) & (first < before)
    return shared


def _entries(column: ColumnFiles) -> int:
    assert column.idx is not None  # generation 3; for the type checker
    return column.idx.size // ENTRY_BYTES
