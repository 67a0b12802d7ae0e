"""Base class of tables whose files consist of blocks: row groups, record batches, chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Column
from dataformats.batch.stored_records import join_values
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.common_type import types_known_in
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.columns.numbers import offsets_of
from dataformats.errors import DataFormatsError, SpecError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.interfaces.table import BadRowsError, BlockTable, starts_of
from dataformats.spec import Spec


class FileBlock(NamedTuple):
    """A block of a file.

    Attributes:
        file: The number of the file.
        number: The number of the block in the file.
        first: The first record of the block, by its number in the file.
        end: The number behind its last record.
    """

    file: int
    number: int
    first: int
    end: int


class OtherFieldsError(SpecError):
    """The files of a table have different fields.

    Args:
        what: The error in words.
        specs: The spec of each file.
    """

    def __init__(self, what: str, specs: Sequence[Spec]) -> None:
        super().__init__(what)
        self.specs = specs


class FilesTable(BlockTable):
    """A table of files that consist of blocks: implement `read_rows`.

    Args:
        files: The files, in reading order.
        specs: The spec of each file, or one for all of them.
        block_rows: The records of each block of each file; blocks of no records are left out.
        decoded_bytes: The bytes of all columns in memory; an estimate.

    Raises:
        OtherFieldsError: The files have different specs: see `open_table_union`.

    Example:
        >>> from dataformats import Spec
        >>> from dataformats.interfaces import FilesTable, LocalFile
        >>> class Table(FilesTable):
        ...     def read_rows(self, block, fields):
        ...         rows = [(block.file, row) for row in range(block.first, block.end)]
        ...         return self.columns_of_rows(rows, fields)
        >>> file = LocalFile("tests/golden/ffrecord/one.ffr")
        >>> table = Table([file, file], [Spec({"file": "int8", "row": "int64"})], [[2, 0, 1], [2]], 40)
        >>> table.counts.tolist(), table.block_starts.tolist()
        ([3, 2], [0, 2, 3])
        >>> table.read_block(2, ["file", "row"])
        {'file': array([1, 1], dtype=int8), 'row': array([0, 1])}
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        specs: Sequence[Spec],
        block_rows: Sequence[Sequence[int] | NDArray[np.int64]],
        decoded_bytes: int,
    ) -> None:
        for file, spec in zip(files, specs, strict=False):
            if spec != specs[0]:
                what = f"{file.name!r} has other fields than {files[0].name!r}: {spec} instead of {specs[0]}"
                raise OtherFieldsError(what, specs)
        rows = [np.asarray(one, np.int64) for one in block_rows]
        sizes = np.concatenate(rows)
        bounds = offsets_of(np.array([len(one) for one in rows], np.int64))  # where the blocks of a file begin
        owner = np.repeat(np.arange(len(rows)), np.diff(bounds))
        filled = np.flatnonzero(sizes)
        self.files: Sequence[StoredFile] = files
        named = list(zip([file.name for file in files], specs, strict=False))
        self.spec: Spec = Spec(types_known_in(specs[0], named))
        self.counts: NDArray[np.int64] = np.diff(offsets_of(sizes)[bounds])
        self.block_starts: NDArray[np.int64] = starts_of(sizes[filled])
        self.decoded_bytes: int = decoded_bytes
        self._sizes = sizes[filled]
        self._file = owner[filled]
        self._number = filled - bounds[self._file]
        self._first = self.block_starts - starts_of(self.counts)[self._file]

    @abstractmethod
    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        """Return these columns of all records of a block; see `BlockTable.read_block`."""

    def read_block(self, block: int, fields: Sequence[str]) -> Mapping[str, Column]:
        return self.read_rows(self.place_of(block), fields)

    def place_of(self, block: int) -> FileBlock:
        """Return where a block lies."""
        first = int(self._first[block])
        return FileBlock(int(self._file[block]), int(self._number[block]), first, first + int(self._sizes[block]))

    def columns_of_rows(self, rows: Sequence[Sequence[Any]], fields: Sequence[str]) -> dict[str, Column]:
        """Return the columns of rows of Python values, for a library that gives rows.

        Args:
            rows: The values of these fields in each record. `None`: the record lacks the field. Bytes are the value as
                a file stores it: of an array, its numbers in little-endian order.
            fields: Names of the spec.

        Raises:
            BadRowsError: Values of some rows do not fit the types of the spec.
        """
        try:
            return self._columns_of(rows, fields)
        except DataFormatsError:
            failed: dict[int, DataFormatsError] = {}
        for number, row in enumerate(rows):
            try:
                self._columns_of([row], fields)
            except DataFormatsError as error:
                failed[number] = error
        others = [row for number, row in enumerate(rows) if number not in failed]
        raise BadRowsError(self._columns_of(others, fields), failed)

    def _columns_of(self, rows: Sequence[Sequence[Any]], fields: Sequence[str]) -> dict[str, Column]:
        columns = zip(*rows, strict=True) if rows else [()] * len(fields)
        return {name: self._column(name, values) for name, values in zip(fields, columns, strict=True)}

    def _column(self, name: str, values: Sequence[Any]) -> Column:
        kind, codecs = self.spec[name], CodecResolver(trusted=False)
        encode = codecs.encoder(kind.required, name)
        stored = [[] if value is None else [value] if isinstance(value, bytes) else encode(value) for value in values]
        return FieldDecoder(codecs, kind, kind, name).decode(*join_values(stored))
