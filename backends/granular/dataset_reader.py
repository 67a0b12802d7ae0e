"""Reads data sets: where the values of some fields lie for some rows."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.granular.folder import DataSetFiles
from dataformats.backends.granular.limits import Limits
from dataformats.backends.granular.rows import Rows, Table
from dataformats.backends.granular.stored_types import decoded_type, is_sequence
from dataformats.columns.decode import check_part
from dataformats.errors import FormatError, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.lookup import RecordsByFile, split_by_file
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.spec import Spec, Type

__all__ = ["DataSetReader"]


@dataclass(frozen=True, slots=True)
class _Plain:
    """A field whose value of row i is record i of one bag, the ends of which are all believed.

    Attributes:
        file: The bag's number.
        limits: Of the bag.
    """

    file: int
    limits: Limits

    def locate(self, rows: NDArray[np.int64]) -> Located:
        """Return where the values of these rows lie."""
        offset, length, _ = self.limits.extents(rows)
        file = np.empty(len(rows), np.int32)
        file.fill(self.file)
        return Located(Extents(file, offset, length))


class DataSetReader(Reader):
    """The rows of one data set, or of several with the same fields, one after the other.

    Args:
        sets: Of each the files.
        spec: The fields, where there are no sets.

    Raises:
        FormatError: Their fields differ.
    """

    def __init__(self, sets: Sequence[DataSetFiles], spec: Spec) -> None:
        for other in sets:
            if other.spec != spec:
                raise FormatError("the fields differ from those of the first", path=other.name, found=str(other.spec))
        self.spec: Spec | None = spec
        self.files: list[StoredFile] = [file for one in sets for file in one.files()]
        self._tables = [Table(one) for one in sets]
        sizes = [len(table.files.files()) for table in self._tables]
        self._bases = np.cumsum([0, *sizes])
        self._lock = threading.Lock()
        self._starts: NDArray[np.int64] | None = None
        self._plain: dict[str, _Plain | None] = {}
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    # ---- how many

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64[n_files], the rows of a data set at its first file; 0 at the others."""
        counts = np.zeros(len(self.files), np.int64)
        counts[self._bases[:-1]] = np.diff(self._row_starts)
        return counts

    @property
    def _row_starts(self) -> NDArray[np.int64]:
        """int64[n_tables + 1], the number of each data set's first row, and of all rows."""
        with self._lock:
            if self._starts is None:
                with ThreadPoolExecutor(max(1, min(len(self._tables), os.cpu_count() or 1))) as threads:
                    rows = list(threads.map(lambda table: table.n_rows, self._tables))
                self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(rows, np.int64))])
            return self._starts

    def file_summaries(self) -> list[tuple[str, int, int]]:
        rows = np.diff(self._row_starts).tolist()
        return [(table.files.name, n, table.files.nbytes) for table, n in zip(self._tables, rows, strict=True)]

    # ---- where

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where: RecordsByFile | None = None
        located = {}
        for name, part in fields.items():
            plain = self._plain[name] if name in self._plain else self._judge(name)
            if plain is not None:
                located[name] = plain.locate(indices)
                continue
            where = where or split_by_file(self._row_starts, indices)
            located[name] = self._locate(name, where, part)
        return located

    def _judge(self, field: str) -> _Plain | None:
        """Return a field's bag if row i is record i of the one data set, and no end is in doubt."""
        limits = None if is_sequence(self._stored(field)) else self._only_limits(field)
        plain = None if limits is None else _Plain(self._file(0, field), limits)
        self._plain[field] = plain
        return plain

    def _locate(self, field: str, where: RecordsByFile, part: bool | range) -> Located:
        kind = self._stored(field)
        rows = self._rows_of(field, where)
        wrong = {row: self._problem(field, where, row) for row in np.flatnonzero(rows.wrong).tolist()}
        if not is_sequence(kind):
            return Located(self._extents(field, where.file, rows.first, rows.wrong, wrong))
        if isinstance(part, range):
            check_part(part, rows.count[~rows.wrong], field)
        return self._locate_elements(field, where, rows, part, wrong)

    def _only_limits(self, field: str) -> Limits | None:
        if len(self._tables) != 1 or self._tables[0].files.refs is not None:
            return None
        limits = self._tables[0].limits(field)
        return limits if isinstance(limits, Limits) and limits.all_believed else None

    def _locate_elements(
        self, field: str, where: RecordsByFile, rows: Rows, part: bool | range, wrong: Mapping[int, FormatError]
    ) -> Located:
        """Return the blobs of sequences; a row with a problem has one blob, to hang the problem on."""
        picked = np.asarray(part, np.int64) if isinstance(part, range) else None
        counts = rows.count if picked is None else np.full(len(rows.count), len(picked), np.int64)
        counts = np.where(rows.wrong, 1, counts)
        row = np.repeat(np.arange(len(counts)), counts)
        begin = np.cumsum(counts) - counts
        element = np.arange(len(row)) - begin[row]
        if picked is not None and len(picked):
            element = picked[np.minimum(element, len(picked) - 1)]
        records = np.where(rows.wrong[row], 0, rows.first[row] + element)
        problems = {int(begin[position]): error for position, error in wrong.items()}
        return Located(self._extents(field, where.file[row], records, rows.wrong[row], problems), counts)

    def _extents(
        self,
        field: str,
        table: NDArray[np.int32],
        records: NDArray[np.int64],
        left_out: NDArray[np.bool_],
        problems: Mapping[int, FormatError],
    ) -> Extents:
        """Return where records of a field's bags lie, for blobs that are not left out."""
        n = len(records)
        file, offset, length = np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
        found = dict(problems)
        for number in sorted(set(table.tolist())):
            one = len(self._tables) == 1 and not problems
            here: Any = slice(None) if one else np.flatnonzero((table == number) & ~left_out)
            file[slice(None) if one else table == number] = self._file(number, field)
            limits = self._tables[number].limits(field)
            if isinstance(limits, FormatError):
                found |= dict.fromkeys(np.arange(n)[here].tolist(), limits)
                continue
            offset[here], length[here], wrong = limits.extents(records[here])
            if not limits.all_believed:
                places = np.arange(n)[here]
                found |= {int(places[at]): limits.problem(int(records[places[at]])) for at in np.flatnonzero(wrong)}
        return Extents(file, offset, length, problems=found)

    def _rows_of(self, field: str, where: RecordsByFile) -> Rows:
        if len(self._tables) == 1:
            return self._tables[0].rows(field, where.local)
        n = len(where.local)
        rows = Rows(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool))
        for number, here in where.groups.items():
            found = self._tables[number].rows(field, where.local[here])
            rows.first[here], rows.count[here], rows.wrong[here] = found.first, found.count, found.wrong
        return rows

    def _problem(self, field: str, where: RecordsByFile, position: int) -> FormatError:
        return self._tables[int(where.file[position])].problem(field, int(where.local[position]))

    def _stored(self, field: str) -> Type:
        assert self.spec is not None  # set in the constructor; for the type checker
        if field not in self.spec:
            raise SpecError(f"the data set has no such field; it has {', '.join(self.spec)}", field=field)
        return self.spec[field]

    def _file(self, table: int, field: str) -> int:
        files = self._tables[table].files
        each = 1 if files.refs is not None else 2
        first = int(self._bases[table]) + (files.refs is not None)
        return first + each * list(files.columns).index(field)

    # ---- what

    def files_of(self, field: str) -> Sequence[int]:
        self._stored(field)
        return [self._file(number, field) for number in range(len(self._tables))]

    def stored_type_for(self, field: str, declared: Type) -> Type:
        stored = self._stored(field)
        generations = self._generations
        if stored.codec == "int" and not stored.args and 1 in generations and len(generations) > 1:
            raise SpecError("unsigned in generation 1 and signed in the others; open them apart", field=field)
        try:
            return decoded_type(stored, declared, max(generations, default=3))
        except SpecError as error:
            raise SpecError(error.what, field=field) from None

    def available(self, index: int) -> dict[str, bool | range]:
        """Return what `refs.bag` says of a row; no value is read.

        Raises:
            FormatError: What it says is damaged.
        """
        assert self.spec is not None  # set in the constructor; for the type checker
        starts = self._row_starts
        number = int(np.searchsorted(starts, index, side="right")) - 1
        table, row = self._tables[number], index - int(starts[number])
        found: dict[str, bool | range] = {}
        for field, kind in self.spec.items():
            rows = table.rows(field, np.array([row]))
            if rows.wrong[0]:
                raise table.problem(field, row).at(index)
            found[field] = range(int(rows.count[0])) if is_sequence(kind) else True
        return found

    def metadata(self) -> dict[str, str]:
        """Return the generation, and in which fields an interrupted writer was ahead of the others."""
        interrupted = [f"{fault.path}: {fault.expected}, but {fault.found}" for fault in self.dataset_errors()]
        generation = {"generation": ", ".join(map(str, sorted(self._generations)))}
        return generation | ({"interrupted": "; ".join(interrupted)} if interrupted else {})

    def dataset_errors(self) -> list[FormatError]:
        """Return an error for each shard that an interrupted writer left with some fields ahead of others."""
        found = []
        for table in self._tables:
            ahead = {name: n for name, n in table.entries.items() if n > table.n_rows} if _indexed(table) else {}
            if ahead:
                found.append(
                    FormatError(
                        "interrupted: fields differ in length, and the data set ends with the shortest",
                        path=table.files.name,
                        expected=f"{table.n_rows} rows",
                        found=_listed(ahead),
                        remedy="append the missing rows with create(..., resume=True)",
                    )
                )
        return found

    def digest(self, update: Callable[[bytes], None]) -> None:
        assert self.spec is not None  # set in the constructor; for the type checker
        for table in self._tables:
            for field in self.spec:
                rows, limits = table.rows(field, np.arange(table.n_rows)), table.limits(field)
                update(rows.first.astype("<i8").tobytes() + rows.count.astype("<i8").tobytes())
                if not isinstance(limits, FormatError):
                    update(limits.extents(np.arange(len(limits)))[1].astype("<i8").tobytes())

    @functools.cached_property
    def _generations(self) -> frozenset[int]:
        return frozenset(table.generation for table in self._tables)


def _indexed(table: Table) -> bool:
    return table.files.refs is None


def _listed(entries: Mapping[str, int]) -> str:
    return ", ".join(f"{n} of {name}" for name, n in entries.items())
