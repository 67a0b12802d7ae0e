"""Tables: Parquet, Arrow IPC, JSON lines and CSV, through pyarrow."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.arrow_columns import column_of_arrow, spec_of_arrow
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.importing.source import ImportedSource
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.scan import digest_of
from dataformats.sidecars.file_digest import file_digest
from dataformats.storage.file_object import FileObject

__all__ = ["TABLES", "TableSource"]

_CHECKED_BYTES = 2**16
_PARQUET = (".parquet", ".pq")
_IPC = (".arrow", ".feather", ".ipc")
_JSON = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TABLES = (*_PARQUET, *_IPC, *_JSON, *_CSV)
"""The suffixes of tables."""


class TableSource(ImportedSource):
    """The rows of tables that have one schema. Parquet and Arrow IPC are read by row groups, the others whole.

    A field is optional if a row lacks it.

    Args:
        files: The tables, in order.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self._files = list(files)
        self._unlock()
        after_fork(self, "_unlock")
        tables = [self._opened(number) for number in range(len(self._files))]
        schema = tables[0].schema
        for file, table in zip(files, tables, strict=True):
            if not table.schema.equals(schema):
                raise SpecError(f"the tables {files[0].name!r} and {file.name!r} have different schemas")
        optional = {name for table in tables for name in table.lacking}
        counts = [(number, group, n) for number, table in enumerate(tables) for group, n in enumerate(table.counts)]
        self._groups = [(number, group) for number, group, _ in counts]
        self._starts = np.cumsum([0, *(n for _, _, n in counts)])
        super().__init__(spec_of_arrow(schema, optional))

    def _unlock(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[int, _Table] = {}
        self._recent: dict[tuple[int, tuple[str, ...]], Any] = {}

    def _opened(self, number: int) -> _Table:
        if number not in self._tables:
            self._tables[number] = _Table(self._files[number])
        return self._tables[number]

    @property
    def format(self) -> str:
        return "table"

    @property
    def nbytes(self) -> int:
        return sum(file.size for file in self._files)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.name for file in self._files)

    @property
    def fingerprint(self) -> str:
        facts = [f"{file.size} {file_digest(file)}" for file in self._files]
        return digest_of(["table", *facts])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def origin(self, index: int) -> tuple[str, int]:
        number, _ = self._groups[int(np.searchsorted(self._starts, index, side="right")) - 1]
        return self._files[number].name, index

    def _stored_columns(self, indices: NDArray[np.int64], names: Sequence[str]) -> Mapping[str, Column]:
        owner = np.searchsorted(self._starts, indices, side="right") - 1
        chosen = np.unique(owner).tolist()
        parts = [self._rows(group, indices[owner == group] - self._starts[group], names) for group in chosen]
        table = pyarrow().concat_tables(parts) if parts else self._opened(0).schema.empty_table()
        if len(chosen) > 1 and np.any(np.diff(owner) < 0):
            order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
            table = table.take(order)
        return {name: column_of_arrow(table.column(name), self._stored[name], name) for name in names}

    def _rows(self, group: int, rows: NDArray[np.int64], names: Sequence[str]) -> Any:
        table = self._group(group, tuple(names))
        if np.all(np.diff(rows) == 1):
            return table.slice(int(rows[0]), len(rows))
        return table.take(rows)

    def _group(self, group: int, names: tuple[str, ...]) -> Any:
        """Return a row group; the most recent one is kept."""
        with self._lock:
            table = self._recent.get((group, names))
            if table is None:
                number, inner = self._groups[group]
                with _damage_named(self._files[number]):
                    table = self._opened(number).read(inner, list(names))
                self._recent = {(group, names): table}
            return table

    def close(self) -> None:
        self._unlock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_tables", "_recent")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._unlock()
        after_fork(self, "_unlock")


class _Table:
    """One opened file.

    Attributes:
        schema: The Arrow schema.
        counts: Rows of each row group.
        lacking: The fields that have a null.
        read: Returns a row group's columns as a table.
    """

    def __init__(self, file: StoredFile) -> None:
        name = file.name.lower()
        with _damage_named(file):
            opened = _parquet if name.endswith(_PARQUET) else _ipc if name.endswith(_IPC) else partial(_text, name)
            self.schema, self.counts, self.lacking, self.read = opened(FileObject(file))


@contextmanager
def _damage_named(file: StoredFile) -> Iterator[None]:
    """Raise the errors of pyarrow as errors of a damaged file."""
    try:
        yield
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataFormatsError) or getattr(error, "errno", None) is not None:
            raise
        raise FormatError(f"not a sound table: {error}", path=file.name) from error


_Opened = tuple[Any, list[int], set[str], Callable[[int, list[str]], Any]]


def _parquet(stream: io.RawIOBase) -> _Opened:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(stream)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    # pyarrow ends the process if `column` finds damage that a read reports as an error: so read a row of each first.
    checked = pyarrow.parquet.ParquetFile(stream, metadata=file.metadata, buffer_size=_CHECKED_BYTES)
    for number in range(len(groups)):
        next(checked.iter_batches(1, row_groups=[number]), None)
    nullable = {field.name for field in file.schema_arrow if field.nullable}
    kinds = [file.schema.column(number).physical_type for number in range(len(file.schema))]
    lacking: set[str] = set()
    for group in groups:
        columns = [group.column(number) for number in range(group.num_columns)]
        if [one.physical_type for one in columns] != kinds:  # `statistics` would end the process as well
            raise ValueError("a row group has columns of other types than the schema")
        full = {_field_of(one) for one in columns if one.statistics is not None and one.statistics.null_count == 0}
        lacking |= nullable - full  # a null struct is a null in all its columns, and so is a null or empty list

    def read(number: int, names: list[str]) -> Any:
        found = file.read_row_group(number, names)
        found.validate(full=True)
        return found

    return file.schema_arrow, [group.num_rows for group in groups], lacking, read


def _field_of(column: Any) -> str:
    """Return the field of a column of Parquet, whose path may lead into it."""
    name: str = column.path_in_schema
    return name.split(".")[0]


def _ipc(stream: io.RawIOBase) -> _Opened:
    arrow = pyarrow()
    try:
        file = arrow.ipc.open_file(arrow.PythonFile(stream, "r"))
    except arrow.ArrowInvalid:  # a stream, or an error in both
        stream.seek(0)
        return _whole(arrow.ipc.open_stream(stream).read_all())

    def batch(number: int) -> Any:
        found = file.get_batch(number)
        found.validate(full=True)  # damaged offsets must not be followed
        return found

    counts, lacking = [], set()
    for found in map(batch, range(file.num_record_batches)):
        counts.append(found.num_rows)
        lacking |= {name for name in found.schema.names if found.column(name).null_count}
    return file.schema, counts, lacking, lambda number, names: arrow.Table.from_batches([batch(number)]).select(names)


def _text(name: str, stream: io.RawIOBase) -> _Opened:
    import pyarrow.csv
    import pyarrow.json

    if name.endswith(".gz"):
        stream = pyarrow.CompressedInputStream(stream, "gzip")
    if name.endswith(_JSON):
        return _whole(pyarrow.json.read_json(stream))
    tab = pyarrow.csv.ParseOptions(delimiter="\t" if ".tsv" in name else ",", newlines_in_values=True)
    return _whole(pyarrow.csv.read_csv(stream, parse_options=tab))


def _whole(table: Any) -> _Opened:
    table.validate(full=True)
    lacking = {name for name in table.schema.names if table.column(name).null_count}
    return table.schema, [table.num_rows], lacking, lambda _, names: table.select(names)
