"""The rows of one dataset: the records of its bags that hold the values of each row."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.bag_limits import limits_of
from dataformats.backends.granular.folder import ColumnFiles, DatasetFiles
from dataformats.backends.granular.layout import ENTRY_BYTES, BagLimits
from dataformats.backends.granular.refs import Refs, parse_refs
from dataformats.backends.granular.stored_types import is_sequence, record_bytes
from dataformats.backends.granular.unaligned_rows import index_layout, unaligned_rows
from dataformats.errors import CorruptRecordError, FormatError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.spliced_file import SplicedFile

_PARSED_ROWS = 65_536  # parsed at once
_MAX_RECORDS = 2**63 - 1


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
        self._limits: dict[str, BagLimits | FormatError] = {}
        self._wrong_rows: dict[str, NDArray[np.bool_]] = {}
        self._parsed: Refs | None = None
        self._refs_table: BagLimits | None = None
        self._rows: tuple[int, FormatError | None] | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        # A thread takes the lock of the rows first, then the lock of a field, then the lock of `refs.bag`.
        self._rows_lock, self._refs_lock = threading.Lock(), threading.RLock()
        self._field_locks = {field: threading.Lock() for field in self._order}

    @property
    def generation(self) -> int:
        """The generation of the format: 1, 2 or 3."""
        return 3 if self.files.refs is None else self._refs_limits.layout.generation

    @property
    def n_whole(self) -> int:
        """Number of whole rows: in generation 3 the records of the shortest field, else the records of `refs.bag`."""
        return self._whole_and_rest[0]

    @property
    def rest(self) -> FormatError | None:
        """The error of the records that no whole row has; `None` if there are none."""
        return self._whole_and_rest[1]

    @property
    def _whole_and_rest(self) -> tuple[int, FormatError | None]:
        if self._rows is None:
            with self._refs_lock:
                self._rows = self._count_rows()
        return self._rows

    def _count_rows(self) -> tuple[int, FormatError | None]:
        columns = self.files.columns.values()
        of_fields = self.files.refs is None
        n = min(index_layout(column).n_records for column in columns) if of_fields else len(self._refs_limits)
        return n, unaligned_rows(self.files, n)

    def first(self, n: int) -> DatasetFiles | None:
        """Return the files as they were with the first `n` rows; `None` if they hold more than a record for a row."""
        if self.files.refs is not None:
            return None
        columns = {}
        for field, column in self.files.columns.items():
            limits = self.limits(field)
            if isinstance(limits, FormatError) or column.idx is None:
                return None
            bag, idx = range(int(limits.edges[n])), range(ENTRY_BYTES * n)
            columns[field] = ColumnFiles(SplicedFile(column.bag, [bag]), SplicedFile(column.idx, [idx]))
        return replace(self.files, columns=columns)

    @property
    def n_rows(self) -> int:
        """Number of rows: the whole ones, and one more that raises if there is a rest."""
        return self.n_whole + (self.rest is not None)

    @property
    def _refs_limits(self) -> BagLimits:
        """The limits of `refs.bag`, whose generation is the whole dataset's."""
        assert self.files.refs is not None  # asked for in generations 1 and 2 alone; for the type checker
        with self._refs_lock:
            if self._refs_table is None:
                self._refs_table = limits_of(self.files.refs, None)
            return self._refs_table

    def has_limits(self, field: str) -> bool:
        """Return True if the limits of a field's bag are in memory."""
        return field in self._limits

    def limits(self, field: str) -> BagLimits | FormatError:
        """Return the limits of a field's bag, or the error that hides them."""
        with self._field_locks[field]:
            if field not in self._limits:
                try:
                    self._limits[field] = self._load_limits(field)
                except FormatError as error:
                    self._limits[field] = error
            return self._limits[field]

    def _load_limits(self, field: str) -> BagLimits:
        column = self.files.columns[field]
        if self.files.refs is None:
            return limits_of(column.bag, column.idx)
        limits = limits_of(column.bag, None, record_bytes(self.files.spec[field]))
        if limits.record_bytes is None:
            self._check_column(field, limits)
        return limits

    def _check_column(self, field: str, limits: BagLimits) -> None:
        """Refuse a bag that, beside `refs.bag`, looks like one that lost its end: see `layout`."""
        layout = limits.layout
        if layout.n_records and layout.generation != self.generation:
            raise FormatError(
                "the bag is of another generation than refs.bag: it is damaged, or lost its end",
                path=layout.table_path,
                offset_bytes=layout.table_offset,
                expected=f"generation {self.generation}",
                found=f"generation {layout.generation}",
            )
        used = self._used_records(field)
        if self.rest is None and len(limits) > used:
            raise FormatError(
                "the bag has records that no row uses: it is damaged, or lost its end",
                path=layout.table_path,
                expected=f"{used} records",
                found=len(limits),
            )

    def _used_records(self, field: str) -> int:
        """Return the number of records that a field needs; as large as any bag if damaged rows hide it."""
        refs, number = self._refs, self._order.index(field)
        if not is_sequence(self.files.spec[field]):
            return max(self.n_whole, int(refs.first[number].max(initial=-1)) + 1)
        stop = np.where(refs.counts(number) > 0, refs.first[number] + refs.counts(number), 0)
        return _MAX_RECORDS if refs.wrong.any() or (stop < 0).any() else int(stop.max(initial=0))

    def records(self, field: str, rows: NDArray[np.int64]) -> RowRecords:
        """Return the records of one field for these rows, in this order."""
        if self.files.refs is None:
            wrong = rows >= self.n_whole
            return RowRecords(np.where(wrong, 0, rows), (~wrong).astype(np.int64), wrong)
        refs = self._refs
        number, wrong = self._order.index(field), self._wrong(field)[rows]
        first, count = refs.first[number][rows], refs.counts(number)[rows]
        return RowRecords(np.where(wrong, 0, first), np.where(wrong, 0, count), wrong)

    def problem(self, field: str, row: int) -> FormatError:
        """Return the error of a row that `records` calls wrong."""
        if row >= self.n_whole:
            assert self.rest is not None  # there is no such row without one; for the type checker
            return self.rest
        refs = self._refs
        if refs.wrong[row]:
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
        offset, length, _ = self._refs_limits.extents(np.array([row]))
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
        with self._rows_lock:
            if field not in self._wrong_rows:
                self._wrong_rows[field] = self._find_wrong(field)
            return self._wrong_rows[field]

    def _find_wrong(self, field: str) -> NDArray[np.bool_]:
        refs = self._refs
        number, column = self._order.index(field), self.limits(field)
        first, count = refs.first[number], refs.counts(number)
        if isinstance(column, FormatError):
            return refs.wrong | (count > 0)
        n = len(column)
        wrong = refs.wrong | (first > n) | (count > n - np.minimum(first, n))
        return wrong | _overlapping(first, count, wrong, n) if is_sequence(self.files.spec[field]) else wrong

    @property
    def _refs(self) -> Refs:
        """The records of all rows; the row of the rest is a wrong one."""
        with self._refs_lock:
            if self._parsed is None:
                self._parsed = self._parse_refs()
            return self._parsed

    def _parse_refs(self) -> Refs:
        file, limits = self.files.refs, self._refs_limits
        assert file is not None  # called for generations 1 and 2 alone; for the type checker
        sequences = [is_sequence(kind) for kind in self.files.spec.values()]
        begins = range(0, max(1, len(limits)), _PARSED_ROWS)
        parts = [_parse(file, limits, range(at, min(at + _PARSED_ROWS, len(limits))), sequences) for at in begins]
        file.release()
        if self.rest is not None:
            nowhere = np.array([-1])
            parts.append(parse_refs(b"", nowhere, nowhere, sequences))
        return Refs.join(parts)


def _parse(file: StoredFile, limits: BagLimits, part: range, sequences: list[bool]) -> Refs:
    offset, length, _ = limits.extents(np.arange(part.start, part.stop))
    begin = int(offset.min(initial=2**62))
    data = file.pread(begin, int((offset + length).max(initial=0)) - begin)
    return parse_refs(data, offset - begin, offset - begin + length, sequences)


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
