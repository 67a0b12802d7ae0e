"""Reads datasets: locates the values of any fields of any rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.folder import DatasetFiles
from dataformats.backends.granular.layout import BagLimits
from dataformats.backends.granular.row_index import RowIndex, RowRecords
from dataformats.backends.granular.stored_types import decoded_type, is_sequence
from dataformats.columns.masks import check_part
from dataformats.errors import FormatError, SpecError
from dataformats.fork_hooks import after_fork, cached_property
from dataformats.indexing.lookup import RecordsByFile, split_by_file
from dataformats.interfaces import Extents, FilesPerField, Located, Reader, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.threads import concurrent_map, threads_for


@dataclass(frozen=True, slots=True)
class _PlainField:
    """A field of a single dataset that needs no row index: row i is record i of its bag, and all limits are plausible.

    Attributes:
        file: The number of the bag's file.
        limits: The limits of the bag.
    """

    file: int
    limits: BagLimits

    def locate(self, rows: NDArray[np.int64]) -> Located:
        """Return the extents of the values of these rows."""
        offset, length, _ = self.limits.extents(rows)
        file = np.empty(len(rows), np.int32)
        file.fill(self.file)
        return Located(Extents(file, offset, length))


class GranularReader(Reader, FilesPerField):
    """The rows of one dataset, or of several with the same fields, one after the other.

    Args:
        sets: The files of each dataset.
        spec: The fields, also if there are no datasets.
    """

    def __init__(self, sets: Sequence[DatasetFiles], spec: Spec) -> None:
        self.spec: Spec | None = spec
        self.files: Sequence[StoredFile] = [file for one in sets for file in one.files()]
        self._sets = [RowIndex(one) for one in sets]
        sizes = [len(rows.files.files()) for rows in self._sets]
        self._bases = np.cumsum([0, *sizes])
        self._is_local = all(file.local is not None for file in self.files)
        self._lock = threading.Lock()
        self._starts: NDArray[np.int64] | None = None
        self._plain: dict[str, _PlainField | None] = {}
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    # ---- numbers of rows

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64[n_files], the rows of a dataset at its first file; 0 at the others."""
        counts = np.zeros(len(self.files), np.int64)
        counts[self._bases[:-1]] = np.diff(self._row_starts)
        return counts

    @property
    def _row_starts(self) -> NDArray[np.int64]:
        """int64[n_sets + 1], the number of each dataset's first row, and the number of all rows."""
        with self._lock:
            if self._starts is None:
                with threads_for(len(self._sets), local=self._is_local) as threads:
                    rows = list(threads.map(lambda one: one.n_rows, self._sets))
                self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(rows, np.int64))])
            return self._starts

    @property
    def nbytes(self) -> int:
        return sum(one.files.nbytes for one in self._sets)

    def file_summaries(self) -> list[tuple[str, int, int]]:
        rows = np.diff(self._row_starts).tolist()
        return [(one.files.name, n, one.files.nbytes) for one, n in zip(self._sets, rows, strict=True)]

    def first(self, n: int, open_files: Callable[[Sequence[StoredFile]], Reader]) -> Reader | None:
        """Return a reader of the datasets as they were with the first `n` rows: the last bags end behind these."""
        assert self.spec is not None  # set in the constructor; for the type checker
        number = int(np.searchsorted(self._row_starts, n, side="right")) - 1
        sets, row = [one.files for one in self._sets[:number]], n - int(self._row_starts[number])
        last = self._sets[number].first(row) if row else None
        if row and last is None:
            return None
        return GranularReader(sets if last is None else [*sets, last], self.spec)

    # ---- extents

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where: RecordsByFile | None = None
        if not self._is_local:
            sets = np.unique(split_by_file(self._row_starts, indices).file).tolist() if len(self._sets) > 1 else [0]
            self._load_tables(sets if len(indices) else (), fields)
        located = {}
        for name, part in fields.items():
            plain = self._plain[name] if name in self._plain else self._plain_field(name)
            if plain is not None:
                located[name] = plain.locate(indices)
                continue
            where = where or split_by_file(self._row_starts, indices)
            located[name] = self._locate(name, where, part)
        return located

    def _load_tables(self, sets: Iterable[int], fields: Iterable[str]) -> None:
        """Load the tables of these datasets and fields that are not in memory, many at once."""
        known = [field for field in fields if field in (self.spec or ())]
        wanted = [(number, field) for number in sets for field in known if not self._sets[number].has_limits(field)]
        concurrent_map(lambda one: self._sets[one[0]].limits(one[1]), wanted, local=False)

    def _plain_field(self, field: str) -> _PlainField | None:
        """Return the field as a plain one, or `None` if it is not."""
        limits = None if is_sequence(self._stored(field)) else self._only_limits(field)
        plain = None if limits is None else _PlainField(self._file(0, field), limits)
        self._plain[field] = plain
        return plain

    def _locate(self, field: str, where: RecordsByFile, part: bool | range) -> Located:
        kind = self._stored(field)
        records = self._records(field, where)
        wrong = {row: self._problem(field, where, row) for row in np.flatnonzero(records.wrong).tolist()}
        if not is_sequence(kind):
            return Located(self._extents(field, where.file, records.first, records.wrong, wrong))
        if isinstance(part, range):
            check_part(part, records.count[~records.wrong], field)
        return self._locate_elements(field, where, records, part, wrong)

    def _only_limits(self, field: str) -> BagLimits | None:
        if len(self._sets) != 1 or self._sets[0].files.refs is not None or self._sets[0].rest is not None:
            return None
        limits = self._sets[0].limits(field)
        return limits if isinstance(limits, BagLimits) and limits.all_believed else None

    def _locate_elements(
        self,
        field: str,
        where: RecordsByFile,
        records: RowRecords,
        part: bool | range,
        wrong: Mapping[int, FormatError],
    ) -> Located:
        """Return the extents of the elements of sequences; a row with a problem has one blob, to carry the problem."""
        picked = np.asarray(part, np.int64) if isinstance(part, range) else None
        counts = records.count if picked is None else np.full(len(records.count), len(picked), np.int64)
        counts = np.where(records.wrong, 1, counts)
        row = np.repeat(np.arange(len(counts)), counts)
        begin = np.cumsum(counts) - counts
        element = np.arange(len(row)) - begin[row]
        if picked is not None and len(picked):
            element = picked[np.minimum(element, len(picked) - 1)]
        numbers = np.where(records.wrong[row], 0, records.first[row] + element)
        problems = {int(begin[position]): error for position, error in wrong.items()}
        return Located(self._extents(field, where.file[row], numbers, records.wrong[row], problems), counts)

    def _extents(
        self,
        field: str,
        sets: NDArray[np.int32],
        records: NDArray[np.int64],
        left_out: NDArray[np.bool_],
        problems: Mapping[int, FormatError],
    ) -> Extents:
        """Return the extents of records of a field's bags.

        Args:
            field: The field.
            sets: int32[n], the dataset of each record.
            records: int64[n], its number in the bag.
            left_out: bool[n], records that have a problem already.
            problems: Their problems, row to error.
        """
        n = len(records)
        file, offset, length = np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
        found = dict(problems)
        for number in sorted(set(sets.tolist())):
            one = len(self._sets) == 1 and not problems
            here: Any = slice(None) if one else np.flatnonzero((sets == number) & ~left_out)
            file[slice(None) if one else sets == number] = self._file(number, field)
            limits = self._sets[number].limits(field)
            if isinstance(limits, FormatError):
                found |= dict.fromkeys(np.arange(n)[here].tolist(), limits)
                continue
            offset[here], length[here], wrong = limits.extents(records[here])
            if not limits.all_believed:
                places = np.arange(n)[here]
                found |= {int(places[at]): limits.problem(int(records[places[at]])) for at in np.flatnonzero(wrong)}
        return Extents(file, offset, length, problems=found)

    def _records(self, field: str, where: RecordsByFile) -> RowRecords:
        if len(self._sets) == 1:
            return self._sets[0].records(field, where.local)
        n = len(where.local)
        records = RowRecords(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool))
        for number, here in where.groups.items():
            part = self._sets[number].records(field, where.local[here])
            records.first[here], records.count[here], records.wrong[here] = part.first, part.count, part.wrong
        return records

    def _problem(self, field: str, where: RecordsByFile, row: int) -> FormatError:
        return self._sets[int(where.file[row])].problem(field, int(where.local[row]))

    def _stored(self, field: str) -> Type:
        assert self.spec is not None  # set in the constructor; for the type checker
        if field not in self.spec:
            raise SpecError(f"the dataset has no such field: expected one of {', '.join(self.spec)}", field=field)
        return self.spec[field]

    def _file(self, number: int, field: str) -> int:
        """Return the number of the file that holds a field's bag in a dataset."""
        files = self._sets[number].files
        each = 1 if files.refs is not None else 2
        first = int(self._bases[number]) + (files.refs is not None)
        return first + each * list(files.columns).index(field)

    # ---- description

    def files_of(self, field: str) -> Sequence[int]:
        self._stored(field)
        return [self._file(number, field) for number in range(len(self._sets))]

    def stored_type_for(self, field: str, declared: Type) -> Type:
        stored = self._stored(field)
        generations = self._generations
        if stored.codec == "int" and not stored.args and 1 in generations and len(generations) > 1:
            raise SpecError(
                "cannot open generation 1, whose 'int' is unsigned, together with others; open them apart", field=field
            )
        try:
            return decoded_type(stored, declared, max(generations, default=3))
        except SpecError as error:
            raise SpecError(error.what, field=field) from None

    def present_fields(self, index: int) -> dict[str, bool | range]:
        """Return the fields of a row, and the elements of its sequences, without reading a value.

        Raises:
            FormatError: `refs.bag` is damaged there.
        """
        assert self.spec is not None  # set in the constructor; for the type checker
        starts = self._row_starts
        number = int(np.searchsorted(starts, index, side="right")) - 1
        one, row = self._sets[number], index - int(starts[number])
        found: dict[str, bool | range] = {}
        for field, kind in self.spec.items():
            records = one.records(field, np.array([row]))
            if records.wrong[0]:
                raise one.problem(field, row).at(index)
            found[field] = range(int(records.count[0])) if is_sequence(kind) else True
        return found

    def metadata(self) -> dict[str, str]:
        """Return the generation, and which fields are shorter than others."""
        generation = {"generation": ", ".join(map(str, sorted(self._generations)))}
        rests = [str(one.rest) for one in self._sets if one.rest is not None]
        return generation | ({"incomplete": "; ".join(rests)} if rests else {})

    def digest(self, update: Callable[[bytes], None]) -> None:
        assert self.spec is not None  # set in the constructor; for the type checker
        if not self._is_local:
            self._load_tables(range(len(self._sets)), self.spec)
        for one in self._sets:
            for field in self.spec:
                records, limits = one.records(field, np.arange(one.n_whole)), one.limits(field)
                update(records.first.astype("<i8").tobytes() + records.count.astype("<i8").tobytes())
                if not isinstance(limits, FormatError):
                    n = len(limits) if one.files.refs is not None else one.n_whole
                    update(limits.extents(np.arange(n))[1].astype("<i8").tobytes())

    @cached_property
    def _generations(self) -> frozenset[int]:
        return frozenset(one.generation for one in self._sets)
