"""Tables of files that differ in fields, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column
from dataformats.columns.column_cast import cast_elements
from dataformats.columns.common_type import union_types
from dataformats.columns.empty_column import empty_column
from dataformats.columns.masks import insert_missing
from dataformats.errors import DataFormatsError
from dataformats.indexing.files_table import FilesTable, OtherFieldsError
from dataformats.indexing.union_reader import column_notes, union_metadata
from dataformats.interfaces import BadRowsError, BlockTable, ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec

Table = TypeVar("Table", bound=FilesTable)


def open_table_union(
    files: Sequence[StoredFile], read: Callable[[Sequence[StoredFile]], FilesTable], options: ReaderOptions
) -> BlockTable:
    """Return a table of files that may differ in fields: a field that a file lacks is optional.

    Args:
        files: The files, in reading order.
        read: Returns a table of files with the same fields.
        options: The options of `open`.

    Raises:
        SpecError: The type of a field differs, and no type has the values of all files.
    """
    return union_of_tables(tables_by_fields(files, read), options)


def tables_by_fields(files: Sequence[StoredFile], read: Callable[[Sequence[StoredFile]], Table]) -> list[Table]:
    """Return a table of all files, or of each run of files with the same fields."""
    try:
        return [read(files)]
    except OtherFieldsError as error:
        runs = groupby(zip(files, error.specs, strict=True), lambda one: one[1])
        return [read([file for file, _ in run]) for _, run in runs]


def union_of_tables(tables: Sequence[BlockTable], options: ReaderOptions) -> BlockTable:
    """Return a table of the records of one table or more, one behind the other: see `UnionTable`."""
    return tables[0] if len(tables) == 1 else UnionTable(tables, options)


class UnionTable(BlockTable):
    """The records of several tables of one format, one table behind the other, with the fields of all.

    A field that a table lacks is optional. Numbers of several types are cast to one type: see `common_type`.

    Args:
        parts: The tables; two or more.
        options: The options of `open`.

    Raises:
        SpecError: The type of a field differs, and no type has the values of all tables.
    """

    def __init__(self, parts: Sequence[BlockTable], options: ReaderOptions) -> None:
        self._parts = parts
        self.files: Sequence[StoredFile] = [file for part in parts for file in part.files]
        self.counts: NDArray[np.int64] = np.concatenate([part.counts for part in parts])
        self.decoded_bytes: int = sum(part.decoded_bytes for part in parts)
        self.single: bool = parts[0].single
        self.left_out: Mapping[str, DataFormatsError] = {n: e for part in parts for n, e in part.left_out.items()}
        kinds = union_types([(part.files[0].name, part.spec) for part in parts], options.spec)
        self.spec: Spec = Spec({name: kind for name, kind in kinds.items() if name not in self.left_out})
        self.warnings: Sequence[str] = column_notes([part.spec for part in parts], parts)
        starts = np.cumsum([0, *(int(part.counts.sum()) for part in parts)])
        self.block_starts: NDArray[np.int64] = np.concatenate(
            [part.block_starts + first for part, first in zip(parts, starts, strict=False)]
        )
        self._ends = np.append(self.block_starts[1:], starts[-1])
        self._first_blocks = np.cumsum([0, *(len(part.block_starts) for part in parts)])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def read_block(self, block: int, fields: Sequence[str]) -> Mapping[str, Column]:
        number = int(np.searchsorted(self._first_blocks, block, side="right")) - 1
        part, n = self._parts[number], int(self._ends[block] - self.block_starts[block])
        known = [name for name in fields if name in part.spec]
        try:
            found = part.read_block(block - int(self._first_blocks[number]), known)
        except BadRowsError as error:
            n -= len(error.failed)
            raise BadRowsError(
                {name: self._column(name, error.columns, part, n) for name in fields}, error.failed
            ) from None
        return {name: self._column(name, found, part, n) for name in fields}

    def _column(self, name: str, columns: Mapping[str, Column], part: BlockTable, n: int) -> Column:
        kind = self.spec[name]
        if name not in columns:
            return insert_missing(empty_column(kind.required, name), np.zeros(n, np.bool_), optional=True)
        column = columns[name] if kind.dtype is None else cast_elements(columns[name], kind, name)
        if part.spec[name].optional:
            return column
        return insert_missing(column, np.ones(n, np.bool_), optional=kind.optional)

    def file_summaries(self) -> list[tuple[str, int, int]]:
        return [one for part in self._parts for one in part.file_summaries()]

    def metadata(self) -> dict[str, str]:
        return union_metadata(self._parts)
