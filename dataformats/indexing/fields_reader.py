"""Base class of readers whose records have fields, each one blob: the indexes tell which fields there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, SpecError
from dataformats.indexing.file_index import ArrayIndex, FileIndex, join
from dataformats.indexing.files_reader import FilesReader
from dataformats.indexing.lookup import file_of
from dataformats.interfaces import Extents, Located, ReaderOptions
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type

DERIVED: int = 2**62
"""Added to an offset in the file that `FieldsReader.derived_file` returns."""
_ABSENT = -(2**62)


class _JoinedField(NamedTuple):
    """The extents of one field in all files that have it, one file behind the other.

    Attributes:
        extents: The extents. If a file lacks the field, the last one is of no record, and says so.
        shift: int64[n_files], what to add to the index of a record for its place there, negative if its file lacks the
            field; `None` adds nothing.
    """

    extents: ArrayIndex
    shift: NDArray[np.int64] | None

    def places(self, file: NDArray[np.int32], indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the extents of these records; -1 is the last one."""
        return indices if self.shift is None else np.maximum(indices + self.shift[file], -1)


class FieldsReader(FilesReader):
    """A reader of files whose records have fields, each one blob: implement `index_of`, with the arrays of each field.

    The constructor loads all indexes, and joins them field by field: a batch is located at once, whatever the number of
    files. A field that a record lacks, of length -1 in the index, is of an optional type.

    Args:
        files: The files, in reading order.
        options: The options of `open`; needed to keep indexes.
        kind: The kind of kept index: see `FilesReader`.

    Attributes:
        file_indexes: The index of each file.
    """

    def __init__(
        self, files: Sequence[StoredFile], options: ReaderOptions | None = None, kind: str | None = None
    ) -> None:
        super().__init__(files, options, kind)
        indexes = [self.indexes[number] for number in range(len(self.files))]
        derived = [self.derived_file(file, index) for file, index in zip(self.files, indexes, strict=True)]
        added = [file for file in derived if file is not None]
        numbers = np.cumsum([file is not None for file in derived]) + len(derived) - 1
        self._derived: NDArray[np.int32] | None = numbers.astype(np.int32) if added else None
        self.files: Sequence[StoredFile] = [*self.files, *added]
        self._counts = np.array([*map(len, indexes), *[0] * len(added)], np.int64)
        names = dict.fromkeys(name for index in indexes for name in index.fields)
        self._columns = {name: _joined([index.arrays.get(name) for index in indexes], self.starts) for name in names}
        self._lacking = frozenset(
            name for name, column in self._columns.items() if (column.extents.distinct_lengths < 0).any()
        )
        self.file_indexes: list[FileIndex] = [self._part_of(*pair) for pair in enumerate(indexes)]
        self._indexes = self.file_indexes
        self.spec: Spec | None = Spec({name: self.type_of(name) for name in names})

    def _part_of(self, file: int, index: FileIndex) -> FileIndex:
        """Return the index of a file as views of the columns."""
        fields = {}
        for name in index.fields:
            extents, shift = self._columns[name]
            first, stop = self.starts[file : file + 2] + (0 if shift is None else shift[file])
            fields[name] = extents.part(int(first), int(stop))
        return replace(index, fields=fields)

    def derived_file(self, file: StoredFile, file_index: FileIndex) -> StoredFile | None:
        """Return another file made of this one: an offset plus 2**62 in the index is an offset in it. Or `None`."""
        return None

    def type_of(self, field: str) -> Type:
        """Return the type of a field if no spec is declared: by default `bytes`, optional if a record lacks it."""
        return Type("bytes", optional=field in self._lacking)

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        file = file_of(self.starts, indices)
        return {name: self._located(name, file, indices) for name in fields}

    def _located(self, name: str, file: NDArray[np.int32], indices: NDArray[np.int64]) -> Located:
        column, problems = self._columns[name].extents, dict[int, FormatError]()
        places = self._columns[name].places(file, indices)
        offset, length = column.offset[places].astype(np.int64), column.length[places].astype(np.int64)
        stored = None if column.stored is None else column.stored[places].astype(np.uint32)
        if column.problems:
            rows = enumerate(places.tolist())
            problems = {row: column.problems[record] for row, record in rows if record in column.problems}
        if self._derived is not None and (is_derived := offset >= DERIVED).any():
            file, offset = np.where(is_derived, self._derived[file], file), offset & (DERIVED - 1)
        extents = Extents(file, offset, length, self.head, self.tail, stored, self.check, problems)
        return _present(extents) if name in self._lacking else Located(extents)

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index in self.file_indexes:
            update(index.n_records.to_bytes(8, "little"))
            for name, extents in index.fields.items():
                update(name.encode())
                update(extents.digest.encode())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if each of its values is one blob.

        Raises:
            SpecError: Its values are sequences of blobs.
        """
        if declared.dims and declared.codec not in NUMBER_TYPES:
            raise SpecError(f"expected a type of one blob a record, found {declared}", field=field)
        return declared

    def present_fields(self, index: int) -> dict[str, bool | range]:
        """Return the fields that a record has."""
        located = self.locate(np.array([index], np.int64), dict.fromkeys(self.spec or (), True))
        return {name: True for name, one in located.items() if len(one.extents)}


def _present(extents: Extents) -> Located:
    """Return the extents of the records that have the field, and 1 or 0 for each record."""
    there = extents.length >= 0
    new_place = np.cumsum(there) - 1
    stored = None if extents.stored is None else extents.stored[there]
    problems = {int(new_place[place]): error for place, error in extents.problems.items() if there[place]}
    where = (extents.file[there], extents.offset[there], extents.length[there])
    present = Extents(*where, extents.head, extents.tail, stored, extents.check, problems)
    return Located(present, there.astype(np.int64))


def _joined(parts: Sequence[ArrayIndex | None], starts: NDArray[np.int64]) -> _JoinedField:
    """Return a column of the extents in each file, `None` if it lacks the field."""
    there = np.array([part is not None for part in parts])
    counts = np.diff(starts)[: len(parts)]
    shift = np.cumsum(there * counts) - there * counts - starts[: len(parts)]
    shift[~there] = _ABSENT
    found = [part for part in parts if part is not None]
    if counts[~there].any():
        found.append(ArrayIndex(np.zeros(1, np.int8), np.full(1, -1, np.int8)))
    return _JoinedField(join(found), shift if shift.any() else None)
